# SPDX-License-Identifier: Apache-2.0
"""An overlay changes anything, in every target; a wrong or hostile one is one clear line, and nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import dashgen, tree
from targets import boards, evaluate, loaded, managed_groups, prometheus_groups, render

import dashgen as package
from dashgen import build
from dashgen.config import site as config
from dashgen.errors import UserError
from dashgen.model import AlertRule, Sensitivity
from dashgen.targets import TARGETS

# Removes a panel, changes a threshold, adds an alert and renames the folder.
OVERLAY = """
local d = import 'dashgen.libsonnet';
d.removePanel('job.json', 'Throughput')
+ d.threshold('NcclJobDegraded', 'medium', 0.07)
+ d.addAlert('nccl-site', {
  alert: 'NcclSiteLost',
  expr: 'job:training_throughput_loss:ratio > 0.9',
  labels: { severity: 'critical', sensitivity: 'medium' },
  annotations: { summary: 'Lost.' },
}, tiers=['medium'])
+ d.folder('Training network')
"""
RULES = {name: target for name, target in TARGETS.items() if target.document}
BOARDS = ("files", "configmap", "grafana-operator", "resources", "mixin", "terraform")


def site(folder: Path, **overlays: str) -> config.Site:
    """A site in a folder with overlays, by file stem."""
    for name, text in overlays.items():
        (folder / f"{name}.jsonnet").write_text(text)
    (folder / "dashgen.yaml").write_text(json.dumps({"overlays": [f"{name}.jsonnet" for name in overlays]}))
    return config.load(folder / "dashgen.yaml")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> config.Site:
    return site(tmp_path_factory.mktemp("site"), my=OVERLAY)


def panels(board: dict[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        yield from (each["title"] for each in (panel, *panel.get("panels", [])))


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "mixin"])
def test_the_rules_and_the_folder_are_changed_in_every_target(changed: config.Site, target: str) -> None:
    files = render(target, changed)
    if target in ("grafana-alerting", "grafana-operator", "terraform"):
        groups = managed_groups(target, changed)
    elif target == "files":
        groups = {group["name"]: group for group in loaded(files["rules/alerts/medium.yaml"])["groups"]}
    elif target in RULES:
        groups = prometheus_groups(target, changed)
    else:
        groups = {}
    if groups:
        assert [rule["alert"] for rule in groups["nccl-site"]["rules"]] == ["NcclSiteLost"]
        assert "loss:ratio > 0.07)\n" in groups["nccl-alerts-degradation"]["rules"][0]["expr"]
    if target in ("files", "configmap", "grafana-operator", "grafana-alerting", "resources", "terraform"):
        text = "".join([*files, *files.values()])
        assert "Training network" in text and not re.search(r"folder: NCCL$|\"title\": \"NCCL\"", text, re.MULTILINE)


@pytest.mark.parametrize("target", BOARDS)
def test_the_panel_is_gone_in_every_target_and_the_others_are_as_they_were(changed: config.Site, target: str) -> None:
    before, after = boards(target, config.Site()), boards(target, changed)
    assert set(panels(before["dashgen-nccl-job"])) - set(panels(after["dashgen-nccl-job"])) == {"Throughput"}
    assert {uid for uid in before if before[uid] != after[uid]} == {"dashgen-nccl-job"}


def test_the_mixin_takes_the_overlays_along(changed: config.Site) -> None:
    code = "local m = import 'mixin/mixin.libsonnet'; { folder: m.grafanaDashboardFolder, alerts: m.prometheusAlerts }"
    found = evaluate(render("mixin", changed), code)
    assert found["folder"] == "Training network"
    assert "NcclSiteLost" in json.dumps(found["alerts"])


def test_an_overlay_that_changes_nothing_changes_no_byte(tmp_path: Path) -> None:
    same = site(tmp_path, empty="{}")
    for target in TARGETS:
        if target != "mixin":
            assert render(target, same) == render(target, config.Site()), target


def test_overlays_are_added_in_their_order_and_each_tier_is_its_own(tmp_path: Path) -> None:
    two = site(
        tmp_path,
        first="""
local d = import 'dashgen.libsonnet';
d.changeAlert('NcclJobStalled', { labels+: { team: 'a', first: 'x' } })""",
        second="""
{
  prometheusAlerts+:: local tier = $._config.sensitivity; {
    groups: [
      group { rules: [rule { labels+: { team: tier } } for rule in group.rules] }
      for group in super.groups
    ],
  },
}""",
    )
    for level, groups in build.bundle(two).alerts.items():
        for rule in (rule for group in groups for rule in group.rules):
            assert rule.labels["team"] == level
            assert ("first" in rule.labels) == (isinstance(rule, AlertRule) and rule.alert == "NcclJobStalled")


def test_an_overlay_imports_what_lies_beside_or_below_it(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "names.libsonnet").write_text("{ folder: (import 'deep.libsonnet') + ' ' + importstr 'x.txt' }")
    (tmp_path / "lib" / "deep.libsonnet").write_text("'Deep'")
    (tmp_path / "lib" / "x.txt").write_text("Ünïcode")
    found = site(tmp_path, my="{ grafanaDashboardFolder:: (import 'lib/names.libsonnet').folder }")
    assert build.bundle(found).folder == "Deep Ünïcode"
    assert "mixin/overlays/0/lib/deep.libsonnet" in render("mixin", found)


def test_every_helper_does_what_it_says(tmp_path: Path) -> None:
    usual = build.bundle(config.Site())
    changed, removed = (rule.record for rule in usual.recording[1].rules[:2])  # type: ignore[union-attr]
    found = site(
        tmp_path,
        my=f"local changed = '{changed}', removed = '{removed}';"
        """
local d = import 'dashgen.libsonnet';
d.threshold('NcclJobDegraded', 'low', 0.7, key='depth_without_throughput')
+ d.removeAlert('NcclJobQuiet')
+ d.changeRule(changed, { expr: 'vector(1)' })
+ d.removeRule(removed)
+ d.addRule('site', { record: 'job:site:count', expr: 'vector(2)' })
+ d.addRule('nccl-telemetry', { record: 'job:site:max', expr: 'vector(3)' })
+ d.removeDashboard('outliers.json')
+ d.changeDashboard('fleet.json', { title: 'Mine' })
+ d.changePanel('job.json', 'Throughput', { description: 'mine' })
+ d.addPanel('job.json', { title: 'Extra', type: 'text', options: { content: 'x' } })
""",
    )
    made = build.bundle(found)
    low = [rule for group in made.alerts[Sensitivity.LOW] for rule in group.alerts]
    assert "> 0.7" in next(rule.expr for rule in low if rule.alert == "NcclJobDegraded")
    assert "NcclJobQuiet" not in made.runbooks and "NcclJobQuiet" in usual.runbooks
    rules = {rule.record: rule.expr for group in made.recording for rule in group.rules}  # type: ignore[union-attr]
    assert rules[changed] == "vector(1)" and removed not in rules
    assert [group.name for group in made.recording if "job:site:count" in str(group)] == ["site"]
    assert [group.name for group in made.recording if "job:site:max" in str(group)] == ["nccl-telemetry"]
    assert list(made.dashboards) == [slug for slug in usual.dashboards if slug != "outliers"]
    assert made.dashboards["fleet"]["title"] == "Mine"
    job: Any = made.dashboards["job"]
    flat = [each for panel in job["panels"] for each in (panel, *panel.get("panels", []))]
    assert next(panel["description"] for panel in flat if panel["title"] == "Throughput") == "mine"
    extra = flat[-1]
    assert extra["title"] == "Extra" and [panel["id"] for panel in flat].count(extra["id"]) == 1


def test_an_overlay_has_settings_of_its_own_and_panels_that_only_grafana_understands(tmp_path: Path) -> None:
    found = site(
        tmp_path,
        my="""
local d = import 'dashgen.libsonnet';
{ _config+:: { mine:: 'Mine' }, grafanaDashboardFolder:: $._config.mine }
+ { alertmanager+:: { route+: { routes+: [{ name: [] }] } } }
+ d.addPanel('job.json', { title: 'A', targets: [{ expr: '$agg(rate(up{job="$job"}[$__rate_interval])) > $least' }] })
+ d.addPanel('job.json', { title: 'B', datasource: { type: 'loki' }, targets: [{ expr: '{job="a"} |= "b"' }] })
""",
    )
    made = build.bundle(found, [Sensitivity.LOW])
    assert made.folder == "Mine" and {"A", "B"} <= set(panels(made.dashboards["job"]))  # type: ignore[arg-type]


# What is wrong, and where.


def fails(folder: Path, overlay: str) -> str:
    """The one line of a build that fails, as a user sees it."""
    (folder / "my.jsonnet").write_text(overlay)
    (folder / "dashgen.yaml").write_text("overlays: [my.jsonnet]\n")
    before = tree(folder)
    done = dashgen("build", "-o", "out", cwd=folder)
    assert done.returncode == 2 and done.stdout == ""
    assert tree(folder) == before, "nothing is written"
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("dashgen: my.jsonnet"), done.stderr
    return done.stderr


HOSTILE = {
    "an infinite loop": ("local f(x) = f(x + 1) tailstrict; { prometheusRules+:: { groups: f(0) } }", "not finished"),
    "a deep recursion": (
        "local f(x) = 1 + f(x + 1);\n{ grafanaDashboardFolder:: 'x' + f(0) }",
        r":1:1\d: max stack frames",
    ),
    "a huge text": ("{ grafanaDashboardFolder:: std.repeat('x', 900000000) }", "MiB"),
    "a huge list": (
        "{ grafanaDashboardFolder:: std.join('', [std.repeat('y', 1000) for i in std.range(0, 100000000)]) }",
        "MiB|not finished",
    ),
    "a large result": (
        "{ runbooks+:: { x: std.repeat('0123456789abcdef', 2200000) } }",
        "larger than 8 MiB|MiB of memory",
    ),
    "a nesting that no parser follows": ("[" * 200_000, "depth|deep"),
    "a file by its absolute path": ("importstr '/etc/hostname'", ":1:1: .*without .. and absolute paths"),
    "a file further up": ("import '../other.jsonnet'", ":1:1: .*without .. and absolute paths"),
    "a file further up by a detour": ("importstr 'sub/../../x'", ":1:1: .*without .. and absolute paths"),
    "a link that leads out": ("importstr 'link'", ":1:1: .*link leads out"),
    "a device": ("importstr 'zero'", ":1:1: .*"),
    "a flood of messages": ("std.trace(std.repeat('x', 100000), error 'after')", "after"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_overlay_ends_in_one_clear_line_and_writes_nothing(tmp_path: Path, what: str) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "zero").symlink_to("/dev/zero")
    overlay, says = HOSTILE[what]
    assert re.search(says, fails(tmp_path, overlay))


GROUP = "name: 'x', interval: '1m'"
WRONG = {
    "{ a: }": r"1:6: .*unexpected",
    "{\n grafanaDashboardFolder:: nope }": r"2:\d+: Unknown variable: nope",
    "{ grafanaDashboardFolder:: error 'mine\\nsecond' }": r"1:\d+: mine second",
    "import 'nothere'": r"1:1: .*no such file",
    "5": r"object and number",
    "{ grafanaDashboardFolder:: 5 }": r"grafanaDashboardFolder: has to be a text, and is 5",
    "{ dashboards+:: { 'x.json': 5 } }": r"dashboards\['x.json'\]: has to be an object",
    "{ dashboards+:: { 'x.json': {} } }": r"dashboards\['x.json'\].uid: has to be a text, and is missing",
    "{ dashboards+:: { 'x.json': { uid: 'a b' } } }": r"uid: has at most 40",
    "{ dashboards+:: { '../x.json': {} } }": r"a dashboard is called like its file",
    "{ dashboards+:: { 'c\\u0000d.json': {} } }": r"dashboards\['c d.json'\]: a dashboard is called like its file",
    "{ dashboards+:: { [std.repeat('x', 300) + '.json']: {} } }": r"a dashboard is called like .* at most 200 bytes",
    **{
        f"{{ runbooks+:: {{ [{name}]: 'x' }} }}": r"runbooks\['.*'\]: a page is called like its alert"
        for name in (
            *("'../x'", "'../../dashboards/README'", "'x/y'", "''", "'x\\ny'", "'x\\u0000y'", "'.x'"),
            "std.repeat('é', 101)",
        )
    },
    "{ dashboards+:: { 'job.json'+: { panels+: [{ id: {} }] } } }": r"panels: panel.id: has to be a number, and is {}",
    "{ dashboards+:: { 'job.json'+: { panels+: [5] } } }": r"panels: panel: has to be an object, and is 5",
    "{ dashboards+:: { 'job.json'+: { templating+: { list+: [{ name: [1] }] } } } }": r"name: has to be a text, and is",
    "{ prometheusRules+:: { groups+: [{ name: ['s'], interval: '1m', rules: [] }] } }": r"group.name: has to be a text",
    "{ prometheusAlerts+:: { groups+: [{ name: {}, interval: '1m', rules: [] }] } }": r"group.name: has to be a text",
    "(import 'dashgen.libsonnet').addPanel('job.json', { title: 'A', targets: [{ expr: 'up{' }] })": (
        r"dashboard job: panel .*A: expr: "
    ),
    "{ alertmanager+:: { bogus: 1 } }": r"alertmanager: unknown key bogus; there are .*inhibit_rules",
    "{ _config+:: { nope: 1 } }": r"_config: unknown key nope; there are .*; write KEY:: for one of your own",
    "{ _config+:: { alerts+: { Nope: {} } } }": r"_config.alerts: unknown key Nope; there are Nccl",
    "{ _config+:: { alerts+:: { NcclJobQuiet+:: { nope:: {} } } } }": r"Quiet: unknown key nope; there are .*low",
    "(import 'dashgen.libsonnet').addAlert('g', { alert: 'A', expr: 'up' }, tiers=['nope'])": (
        r"there is no tier nope; there are low, medium, high"
    ),
    # The order of the tiers, as in dashgen.yaml.
    "(import 'dashgen.libsonnet').threshold('NcclJobDegraded', 'low', 0.000001)": (
        r"_config.alerts.NcclJobDegraded: a threshold of a lower tier is laxer .*; what fires in low fires in medium"
    ),
    "{ _config+:: { alerts+:: { NcclJobDegraded+: { medium+: { 'for': '5d' } } } } }": r"a lower tier waits shorter",
    "{ _config+:: { alerts+: { NcclJobDegraded+: { low+: { threshold: '1' } } } } }": r"low.threshold: has to be a",
    "{ _config+:: { alerts+: { NcclJobDegraded+: { low+: { 'for': 'x' } } } } }": r"low.for: 'x' is not a duration",
    "{ dashboards+:: { 'x.json': super['job.json'] } }": r"uid: .* has the same",
    "{ dashboards+:: { 'Job.json': super['job.json'] { uid: 'other' } } }": r": [Jj]ob and [Jj]ob are one name to",
    "{ prometheusAlerts+:: { groups+: [super.groups[0] { name: 'nccl_' + std.substr(super.name, 5, 99) }] } }": (
        r"nccl-[a-z-]+ and nccl_[a-z-]+ are one name to some targets"
    ),
    f"{{ prometheusRules+:: {{ groups+: [{{ {GROUP}, rules: [{{ record: 'a' }}] }}] }} }}": r"x: a.expr: has to be",
    f"{{ prometheusRules+:: {{ groups+: [{{ {GROUP}, limit: 3, rules: [] }}] }} }}": r"unknown key limit",
    "{ prometheusRules+:: { groups+: super.groups } }": r"two groups are called",
    f"{{ prometheusAlerts+:: {{ groups+: [{{ {GROUP}, rules: [{{ alert: 'A', expr: 1 }}] }}] }} }}": (
        r"prometheusAlerts \(low\): group x: A.expr: has to be a text"
    ),
    "(import 'dashgen.libsonnet').removePanel('job.json', 'Nope')": r"job.json has no panel Nope; it has .*Throughput",
    "(import 'dashgen.libsonnet').changePanel('nope.json', 'x', {})": r"no dashboard nope.json; there are .*job.json",
    "(import 'dashgen.libsonnet').removeAlert('Nope')": r"there is no alert Nope; there are .*NcclJobDegraded",
    "(import 'dashgen.libsonnet').removeRule('nope')": r"there is no recording rule nope; there are",
    "(import 'dashgen.libsonnet').threshold('NcclStaleFiles', 'low', 3)": r"NcclStaleFiles is not in tier low; it",
    # A semicolon in what is quoted is no remedy.
    "{ grafanaDashboardFolder:: error 'a; b' }": r"1:28: a; b; correct it there",
    "{ grafanaDashboardFolder:: {}['a;b'] }": r"1:28: .*a;b; correct it there",
    "{ a; b }": r"1:4: .*; correct it there",
    "{ _config+:: { grafanaURL: error 'a;b' } }": r"1:28: a;b; correct it there",
    "{ _config+:: { grafanaURL: 5 } }": r" .*number; correct it there",
    "{ _config+:: { sensitivity: 'a;b' } }": r"_config.sensitivity: a;b is no tier; give one of low, medium, high",
    "import '../a;b'": r"1:1: .*a;b.*absolute paths; copy the file there",
    "import 'a;b'": r"1:1: .*a;b.*; dashgen.libsonnet is there without a file",
    "(import 'dashgen.libsonnet').threshold('A;B', 'low', 3)": r"there is no alert A;B; there are .*NcclJobDegraded",
    "(import 'dashgen.libsonnet').threshold('NcclJobQuiet', 'a;b', 3)": r"is not in tier a;b; it is in \w+",
}


@pytest.mark.parametrize("overlay", WRONG)
def test_a_wrong_overlay_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlay: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"^my\.jsonnet:.*{WRONG[overlay]}"):
        build.bundle(site(tmp_path, my=overlay), [Sensitivity.LOW])


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/etc/hostname", "an overlay lies beside or below"),
        ("../x.jsonnet", "an overlay lies beside or below"),
        ("nothere.jsonnet", "no such file"),
        ("link.jsonnet", "the link leads out"),
    ],
)
def test_an_overlay_outside_the_project_is_refused(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "link.jsonnet").symlink_to("/etc/hostname")
    (tmp_path / "dashgen.yaml").write_text(json.dumps({"overlays": [path]}))
    with pytest.raises(UserError, match=f"dashgen.yaml: overlays: {path}: {says}"):
        config.load(tmp_path / "dashgen.yaml")


def test_the_examples_of_the_overlay_page_work(tmp_path: Path) -> None:
    page = (Path(package.__file__).parent / "docs" / "overlays.md").read_text()
    found = dict(re.findall(r"```jsonnet\n// (\w+)\.jsonnet\n(.*?)```", page, re.DOTALL))
    assert set(found) == {"site", "plain"}
    made = build.bundle(site(tmp_path, **found))
    assert made.folder == "Training" and made.dashboards["job"]["title"] == "My job"
    for name in re.findall(r"`(\w+)\(", page):
        assert f"{name}(" in (Path(package.__file__).parent / "jsonnet" / "dashgen.libsonnet").read_text()
