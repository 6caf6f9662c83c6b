# SPDX-License-Identifier: Apache-2.0
"""dashgen.yaml: what is wrong with it is said in one line, and what is right arrives unchanged in every file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from processes import FULL, tool
from pydantic import BaseModel

from dashgen import build, catalogue, promql
from dashgen.config import site as config
from dashgen.config.site import Site
from dashgen.config.targets import complete
from dashgen.engine.prometheus import check_rules
from dashgen.errors import UserError
from dashgen.explain.words import example
from dashgen.model import Sensitivity
from dashgen.targets import TARGETS


def load(folder: Path, text: str) -> Site:
    path = folder / "dashgen.yaml"
    path.write_text(text, encoding="utf-8")
    return config.load(path)


def files(site: Site) -> dict[str, str]:
    return TARGETS["files"].render(build.bundle(site), site)


# What is wrong.

BAD = [
    # keys
    ("lables: {job: a}", "lables", "no such key; `dashgen config schema` lists the keys"),
    ("labels: {jobs: a}", "labels.jobs", "no such key"),
    ("alerts: {NcclJobDegraded: {low: {treshold: 1}}}", "alerts.NcclJobDegraded.low.treshold", "no such key"),
    ("labels: {job: a}\nfabric: xGMI\nlabels: {job: b}", "not YAML: line 3", "'labels' is given twice"),
    ("labels:\n  job: a\n  job: b", "not YAML: line 3", "'job' is given twice"),
    ("1: 2", "1", "strings"),
    # types
    ("- a", "expects keys with values", "dashgen config init"),
    ("text", "expects keys with values", "dashgen config init"),
    ("labels: 5", "labels", "expects keys with values"),
    ("labels: {job: no}", "labels.job", "is not text"),
    ("dump_interval: [30]", "dump_interval", "number"),
    ("acceptance: {AllReduce: {}}", "acceptance.AllReduce", "at least 1 item"),
    ("fabric: [x]", "fabric", "is not text; `dashgen config schema` lists the keys"),
    ("companions: {dcgm: {enabled: perhaps}}", "companions.dcgm.enabled", "boolean"),
    ("grafana: {tags: nccl}", "grafana.tags", "is not a list"),
    # values
    ("dump_interval: quick", "dump_interval", "30s or 1m"),
    ("dump_interval: .nan", "dump_interval", "600"),
    ("dump_interval: 1h", "dump_interval", "600"),
    ("dump_interval: true", "dump_interval", "is no duration"),
    ("cardinality_budget: yes", "cardinality_budget", "valid integer"),
    ("alerts: {NcclJobDegraded: {low: {threshold: yes}}}", "alerts.NcclJobDegraded.low.threshold", "valid number"),
    ("dump_interval: 500ms", "dump_interval", "greater than or equal to 1"),
    ("sensitivity: lo", "sensitivity", "'low', 'medium' or 'high'"),
    ("fabric: ''", "fabric", "pattern"),
    ("fabric: $job", "fabric", "pattern"),
    ("grafana: {uid_prefix: 'a b'}", "grafana.uid_prefix", "pattern"),
    ("grafana: {url: grafana.example.org}", "grafana.url", "https?"),
    ("grafana: {url: 'https://g/?a=b#c'}", "grafana.url", "without what begins with ?"),
    ("grafana: {url: 'https://g/#c'}", "grafana.url", "without what begins with #"),
    ("grafana: {datasource: {variable: job}}", "grafana.datasource.variable", "boards have a variable job already"),
    ("grafana: {datasource: {variable: cluster}}", "grafana.datasource.variable", "cluster"),
    ("grafana: {datasource: {regex: '('}}", "grafana.datasource.regex", "not a regular expression"),
    ("runbook_url: https://example.org/", "runbook_url", "alert"),
    # labels
    ("labels: {job: a-b}", "labels.job", "'a-b' is not a Prometheus label name"),
    ("labels: {job: été}", "labels.job", "not a Prometheus label name"),
    ("labels: {node: comm_name}", "labels.node", "used by the rules themselves"),
    ("labels: {cluster: transport}", "labels.cluster", "used by the rules themselves"),
    ("labels: {job: node}", "labels", "the same label"),
    ("labels: {node: device}", "labels.node", "used by the rules themselves"),
    ("alert_labels: {severity: page}", "alert_labels.severity", "used by the rules themselves"),
    ("alert_labels: {node: a}", "alert_labels.node", "take this label from their series"),
    ("alerts: {NcclGpuLate: {labels: {gpu: a}}}", "alerts.NcclGpuLate.labels.gpu", "take this label from their series"),
    # what goes into PromQL and templates
    ("metrics: {busband: x}", "metrics.busband", "no such metric; the keys are busbw"),
    ("metrics: {busbw: a b}", "metrics.busbw", "not a Prometheus metric name"),
    ("selector: a=b", "selector", "not label matchers"),
    ('selector: \'a="b"} or up{c="d"\'', "selector", "not label matchers"),
    ("selector: 'a=\"b\" # or not'", "selector", "not label matchers"),
    ('selector: \'a="b" or c="d"\'', "selector", "not label matchers"),
    ("selector: 'a=~\"(\"'", "selector", "illegal regex"),
    ("selector: '__name__=\"up\"'", "selector", "metric name"),
    ("companions: {textfile: {file_regex: '(?=a)'}}", "companions.textfile.file_regex", "RE2"),
    ("companions: {slurm: {running: '('}}", "companions.slurm.running", "RE2"),
    ("companions: {throughput: {expr: sum(}}", "companions.throughput.expr", "not PromQL"),
    (
        "companions: {throughput: {expr: 'limitk(2, up)'}}",
        "companions.throughput.expr",
        "Prometheus 2.42 does not know",
    ),
    ("companions: {throughput: {expr: 'info(up)'}}", "companions.throughput.expr", "Prometheus 2.42 does not know"),
    ("companions: {throughput: {expr: '{\"a b\"}'}}", "companions.throughput.expr", "Prometheus 2.42 does not know"),
    ("companions: {throughput: {expr: 'up offset 5'}}", "companions.throughput.expr", "Prometheus 2.42 does not know"),
    ("companions: {throughput: {expr: 'up > 1e999'}}", "companions.throughput.expr", "Prometheus 2.42 does not know"),
    ("companions: {throughput: {expr: 'up[300y]'}}", "companions.throughput.expr", "Prometheus 2.42 does not know"),
    ("companions: {throughput: {expr: $x}}", "companions.throughput.expr", "Prometheus 2.42 does not know"),
    (f"companions: {{throughput: {{expr: '{'(' * 61}up{')' * 61}'}}}}", "companions.throughput.expr", "nests deeper"),
    ("companions: {throughput: {expr: '5'}}", "companions.throughput.expr", "instant vector"),
    ("companions: {throughput: {expr: 'up[5m]'}}", "companions.throughput.expr", "instant vector"),
    ("companions: {throughput: {expr: 'up # c'}}", "companions.throughput.expr", "instant vector"),
    ("companions: {throughput: {expr: up, metric: up}}", "companions.throughput", "only one of"),
    ("alert_labels: {team: '{{ $value }}'}", "alert_labels.team", "template"),
    ("runbook_url: 'https://x/{alert}?{{$value}}'", "runbook_url", "template"),
    ("grafana: {url: 'https://x/{{$value}}'}", "grafana.url", "template"),
    # alerts
    ("alerts: {NcclJobStaled: {}}", "alerts.NcclJobStaled", "no such alert; the alerts are NcclJobStalled, "),
    ("alerts: {NcclStaleFiles: {low: {threshold: 1}}}", "alerts.NcclStaleFiles.low", "not in this tier"),
    ("alerts: {NcclJobStalled: {low: {extra: {deaf: 1}}}}", "alerts.NcclJobStalled.low.extra.deaf", "this alert has:"),
    ("alerts: {NcclJobDegraded: {low: {threshold: .inf}}}", "alerts.NcclJobDegraded.low.threshold", "finite"),
    ("alerts: {NcclJobDegraded: {low: {dumps: -1}}}", "alerts.NcclJobDegraded.low.dumps", "greater"),
    (
        "alerts: {NcclJobDegraded: {low: {threshold: 15}}}",
        "alerts.NcclJobDegraded.low.threshold",
        "write 0.15 for 15 %",
    ),
    ("alerts: {NcclJobDegraded: {low: {threshold: -0.1}}}", "alerts.NcclJobDegraded.low.threshold", "greater"),
    (
        "alerts: {NcclJobDegraded: {low: {extra: {depth_without_throughput: 20}}}}",
        "alerts.NcclJobDegraded.low.extra.depth_without_throughput",
        "write 0.2 for 20 %",
    ),
    ("alerts: {NcclJobDegraded: {enabled: 'no'}}", "alerts.NcclJobDegraded.enabled", "valid boolean"),
    ("companions: {dcgm: {host_label: UUID}}", "companions.dcgm", "the same label, UUID"),
    ("companions: {slurm: {job_id_label: job_state}}", "companions.slurm", "the same label, job_state"),
    (
        "companions: {throughput: {expr: sum(tflops)}}",
        "companions.throughput.expr",
        "has no label slurm_job_id; keep it",
    ),
    ("companions: {throughput: {expr: 'vector(1)'}}", "companions.throughput.expr", "has no label slurm_job_id"),
    (
        "companions: {throughput: {metric: 'job:nccl_verdict:depth'}}",
        "companions.throughput.metric",
        "is recorded by these rules",
    ),
    ("grafana: {url: 'https://u:p@e.org'}", "grafana.url", "without them"),
    ("grafana: {title_prefix: " + "x" * 101 + "}", "grafana.title_prefix", "at most 100"),
    ("targets: {configmap: {folder_annotation: 'a b'}}", "targets.configmap.folder_annotation: ", "annotation"),
    ("targets: {vmrule: {group: {eval_offset: 5s, eval_delay: 5s}}}", "targets.vmrule.group", "set one of them"),
    ("targets: {mimir: {group: {query_offset: 1m, evaluation_delay: 2m}}}", "targets.mimir.group", "set one of them"),
    # text that is no configuration at all
    ("a: b: c", "not YAML: line 1", "mapping values"),
    ("\tlabels: {}", "not YAML: line 1", "cannot start"),
    ("labels: !!python/object:os.system x", "not YAML: line 1", "constructor"),
    ("dump_interval: 2026-13-01", "not YAML", "month"),
    ("dump_interval: !!bool perhaps", "not YAML", "perhaps"),
    ("? [a, b]\n: c", "not YAML: line 1", "unhashable"),
    ("a: &a [*a]", "not YAML: line 1", "recursive"),
    ("[" * 5000, "not YAML: line 1", "nests deeper than 64 levels"),
    ('grafana: {title_prefix: "\\ud800"}', "not YAML: line 1", "escape code"),
    ("dump_interval: " + "9" * 4300, "not YAML: line 1", "a number has 4300 digits"),
    ("cardinality_budget: 0x" + "f" * 5000, "not YAML: line 1", "a number has 5002 digits"),
    ("dump_interval: " + ":".join(["1"] * 5000), "not YAML: line 1", "a number has 9999 digits"),
    (
        "\n".join(f"a{n}: &a{n} [{f'*a{n - 1}, *a{n - 1}' if n else 1}]" for n in range(40)),
        "not YAML: line",
        "more than",
    ),
    ("a: &a [1]\nb: *c", "not YAML: line 2", "undefined alias"),
    ("x" * 900 + ": 1", "xxx", "no such key; `dashgen config schema` lists the keys"),
    ("alerts: {" + "x" * 900 + ": {}}", "alerts", "no such alert; the alerts are NcclJobDegraded"),
    # words of PromQL
    ("labels: {job: 'nan'}", "labels.job", "is a word of PromQL and cannot be grouped by; relabel it"),
    ("labels: {node: Inf}", "labels.node", "is a word of PromQL"),
    ("labels: {gpu: without}", "labels.gpu", "is a word of PromQL"),
    ("labels: {cluster: anchored}", "labels.cluster", "is a word of PromQL"),
    ("companions: {dcgm: {host_label: smoothed}}", "companions.dcgm.host_label", "is a word of PromQL"),
    ("companions: {throughput: {metric: up, job_label: without}}", "companions.throughput.job_label", "is a word"),
    *(
        (f"metrics: {{busbw: '{word}'}}", "metrics.busbw", "is a word of PromQL and cannot be selected")
        for word in ("bool", "on", "group_left", "ignoring", "atan2", "NaN", "inf")
    ),
    # regular expressions that Python or another engine knows, and Prometheus does not
    *(
        (f"companions: {{textfile: {{file_regex: '{regex}'}}}}", "companions.textfile.file_regex", "(RE2)")
        for regex in (
            "a{1001}",
            "(a{500}){3}",
            "(?R)",
            "(?x)a",
            "(?=a)",
            "(?<!a)b",
            r"(a)\1",
            "a++",
            "(?>a)",
            r"\u1234",
        )
    ),
    ("companions: {slurm: {running: '(?<a>b)'}}", "companions.slurm.running", "write (?P<name>)"),
    ("selector: 'a=~\"b{1001}\"'", "selector", "RE2"),
    ("companions: {throughput: {expr: 'up{a!~\"(?R)\"}'}}", "companions.throughput.expr", "RE2"),
    ('companions: {throughput: {expr: \'label_replace(up, "a", "", "b", "c{1001}")\'}}', "companions", "RE2"),
    (f"companions: {{throughput: {{expr: '{'(' * 500}up{')' * 500}'}}}}", "companions.throughput.expr", "nests deeper"),
    (f"companions: {{throughput: {{expr: 'up{' + up' * 500}'}}}}", "companions.throughput.expr", "nests deeper"),
    # further keys of rule groups
    ("targets: {prometheus: {group: {limit: many}}}", "targets.prometheus.group.limit", "integer"),
    ("targets: {prometheus: {group: {limit: -1}}}", "targets.prometheus.group.limit", "greater"),
    ("targets: {prometheus: {group: {labels: [a]}}}", "targets.prometheus.group.labels", "keys with values"),
    ("targets: {prometheus: {group: {labels: {a-b: c}}}}", "targets.prometheus.group.labels.a-b", "label name"),
    ("targets: {vmrule: {group: {labels: {team: '{{ $value }}'}}}}", "targets.vmrule.group.labels.team", "template"),
    ("targets: {vmalert: {group: {type: graphite}}}", "targets.vmalert.group.type", "'prometheus'"),
    ("targets: {prometheus: {group: {query_offset: soon}}}", "targets.prometheus.group.query_offset", "30s or 1m"),
    ("targets: {prometheus: {group: {interval: 1m}}}", "targets.prometheus.group.interval", "no such key"),
    ("targets: {thanos: {group: {partial_response_strategy: no}}}", "targets.thanos", "'warn' or 'abort'"),
    ("targets: {mimir: {group: {source_tenants: a}}}", "targets.mimir.group.source_tenants", "is not a list"),
    ("targets: {vmalert: {group: {concurrency: 0}}}", "targets.vmalert.group.concurrency", "greater"),
    ("targets: {vmrule: {group: {headers: [a]}}}", "targets.vmrule.group.headers", "Name: value"),
    ("targets: {vmrule: {group: {params: {a: b}}}}", "targets.vmrule.group.params", "is not a list"),
    ("alerts: {NcclJobDegraded: {low: {dumps: 999999999999}}}", "alerts.NcclJobDegraded.low.dumps", "less than"),
    ("dump_interval: '30;s'", "dump_interval", "; `dashgen config schema` lists the keys"),
    ("selector: 'a=\";\";'", "selector", "; `dashgen config schema` lists the keys"),
    ("overlays: [" + "a, " * 1000 + "]", "overlays", "at most 100"),
]


@pytest.mark.parametrize(("text", "key", "says"), BAD, ids=[f"{key} {says}"[:60] for _, key, says in BAD])
def test_a_mistake_is_one_line_that_names_file_key_and_remedy(tmp_path: Path, text: str, key: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'dashgen.yaml'}: {key}"), message
    assert says in message and "; " in message, message
    assert "\n" not in message and len(message.removeprefix(str(tmp_path))) <= 300, message


@pytest.mark.parametrize(
    ("alert", "change", "says"),
    [
        ("NcclJobDegraded", {"hold": 4}, "alerts.NcclJobDegraded.low: hold: is called keep_firing now"),
        ("NcclJobDegraded", {"extra": {"blind": 0.3}}, "low.extra.blind: is called depth_without_throughput now"),
        ("NcclJobStalled", {"extra": {"blind": 0.3}}, "low.extra.blind: no such threshold; this alert has: none"),
    ],
)
def test_an_old_key_of_an_alert_is_refused_with_its_new_name(alert: str, change: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        config.site({"alerts": {alert: {"low": change}}}, "here")


@pytest.mark.parametrize(
    ("tiers", "says"),
    [
        ({"low": {"threshold": 0.001}}, "laxer"),
        ({"high": {"threshold": 0.99}}, "laxer"),
        ({"low": {"extra": {"depth_without_throughput": 0.001}}}, "laxer"),
        ({"low": {"dumps": 0}, "medium": {"dumps": 1}}, "waits shorter"),
        ({"high": {"dumps": 99}}, "waits shorter"),
        ({"medium": {"enabled": False}}, "not in the next more sensitive"),
    ],
)
def test_an_override_that_turns_the_order_of_the_tiers_around_is_refused(tiers: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=rf"^here: alerts\.NcclJobDegraded: .*{says}.*; what fires in low"):
        config.site({"alerts": {"NcclJobDegraded": tiers}}, "here")


def test_the_order_of_the_tiers_is_judged_by_the_direction_of_the_alert() -> None:
    falling = next(alert for alert in catalogue.ALERTS if not alert.rises and Sensitivity.MEDIUM in alert.tiers)
    value = falling.tiers[Sensitivity.HIGH].threshold
    assert config.site({"alerts": {falling.name: {"medium": {"threshold": value / 2}}}}, "here").alerts
    with pytest.raises(UserError, match="laxer"):
        config.site({"alerts": {falling.name: {"medium": {"threshold": value * 1.2}}}}, "here")


def test_a_change_of_one_tier_reaches_the_pack_of_that_tier_and_the_runbook() -> None:
    site = config.site(
        {"alerts": {"NcclJobDegraded": {"low": {"threshold": 0.777, "dumps": 41, "keep_firing": 43}}}}, "here"
    )
    changed = files(site)
    shipped = files(Site())
    assert {path for path in shipped if changed[path] != shipped[path]} == {
        "rules/alerts/low.yaml",
        "rules/runbooks/NcclJobDegraded.md",
    }
    rule = rules(changed["rules/alerts/low.yaml"])["NcclJobDegraded"]
    assert "0.777" in rule["expr"] and (rule["for"], rule["keep_firing_for"]) == ("20m30s", "21m30s")
    page = changed["rules/runbooks/NcclJobDegraded.md"]
    assert (
        "| low | more than 77.7 % of the throughput is lost; " in page and " | 20 min 30 s (41 dumps) | page " in page
    )


def rules(text: str) -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(text)["groups"]
    return {rule.get("alert") or rule["record"]: rule for group in groups for rule in group["rules"]}


# The file that dashgen writes itself, and its schema.


def leaves(section: BaseModel, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        yield from leaves(value, (*path, name)) if isinstance(value, BaseModel) else [(*path, name)]


def test_the_commented_configuration_names_every_key_and_changes_nothing(tmp_path: Path) -> None:
    site = load(tmp_path, example())
    assert site == Site()
    assert files(site) == files(Site())
    data = yaml.safe_load(example())
    for path in leaves(Site(targets=complete()())):
        found = data
        for name in path:
            assert name in found, ".".join(path)
            found = found[name]


def test_an_empty_file_or_no_file_means_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(tmp_path, "# nothing yet\n") == Site()
    (tmp_path / "dashgen.yaml").unlink()
    monkeypatch.chdir(tmp_path)
    assert config.load(None) == Site()


def test_a_merge_key_is_not_a_key_given_twice(tmp_path: Path) -> None:
    text = "alerts:\n  NcclGpuLate: &late {enabled: false}\n  NcclNodeLate: {<<: *late}\n"
    assert not load(tmp_path, text).alerts["NcclNodeLate"].enabled


SCHEMA = Draft202012Validator(Site.model_json_schema())


def test_the_schema_is_valid_and_accepts_the_commented_configuration() -> None:
    Draft202012Validator.check_schema(Site.model_json_schema())
    SCHEMA.validate(yaml.safe_load(example()))
    SCHEMA.validate({"dump_interval": "60s", "labels": {"job": "job_name", "cluster": "cluster"}})


@pytest.mark.parametrize(
    "data",
    [
        {"lables": {}},
        {"labels": {"jobs": "a"}},
        {"alerts": {"NcclGpuLate": {"low": {"treshold": 1}}}},
        {"labels": {"job": 5}},
        {"labels": {"job": "1a"}},
        {"dump_interval": "abc"},
        {"alerts": {"Foo": {}}},
        {"metrics": {"foo": "x"}},
        {"metrics": {"busbw": "a b"}},
        {"sensitivity": "lo"},
        {"dump_interval": [30]},
        {"grafana": {"uid_prefix": "a b"}},
    ],
)
def test_the_schema_refuses_what_dashgen_refuses(data: dict[str, Any]) -> None:
    assert not SCHEMA.is_valid(data)
    with pytest.raises(UserError):
        config.site(data, "here")


def test_the_configuration_in_the_readme_is_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    samples = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "dump_interval" in block]
    assert samples
    for sample in samples:
        load(tmp_path, sample)
        SCHEMA.validate(yaml.safe_load(sample))


# What a site writes must not break what dashgen writes.

AWKWARD = st.text(st.sampled_from("ab1 \"'\\`{}<>[]()$,#:%&*!|@~=.+?^;-_/\n\t\r\x00\x1b\x85\u2028é€🙂"), max_size=12)
ANYTHING = AWKWARD | st.sampled_from(
    ["<job>", "<nobody>", "<3 dumps>", "<fabric>", "{{", "${__from}", ",}", ", )", "---", "null", "1e3"]
)


def quoted(text: str) -> str:
    """A PromQL string; JSON knows the same escapes."""
    return json.dumps(text, ensure_ascii=False)


MATCHERS = st.builds(lambda op, text: f"site{op}{quoted(text)}", st.sampled_from(["=", "!=", "=~", "!~"]), ANYTHING)
LABEL = st.sampled_from(["job_name", "kubernetes_node", "host", "a", "_x", "J0B"])
FREE: dict[tuple[str, ...], st.SearchStrategy[str]] = {
    ("labels", "job"): LABEL | ANYTHING,
    ("labels", "cluster"): LABEL | ANYTHING,
    ("metrics", "busbw"): st.just("other:busbw") | ANYTHING,
    ("fabric",): ANYTHING,
    ("selector",): MATCHERS | ANYTHING,
    ("alert_labels", "team"): ANYTHING,
    ("alerts", "NcclGpuLate", "labels", "team"): ANYTHING,
    ("companions", "textfile", "file_regex"): ANYTHING,
    ("companions", "slurm", "running"): ANYTHING,
    ("companions", "throughput", "expr"): MATCHERS.map(lambda text: f"mfu{{{text}}}") | ANYTHING,
    ("companions", "throughput", "job_label"): LABEL | ANYTHING,
    ("companions", "throughput", "unit"): ANYTHING,
    ("grafana", "folder"): ANYTHING,
    ("grafana", "title_prefix"): ANYTHING,
    ("grafana", "path"): ANYTHING,
    ("grafana", "url"): ANYTHING.map("https://".__add__),
    ("grafana", "datasource", "default"): ANYTHING,
    ("grafana", "datasource", "regex"): ANYTHING,
    ("runbook_url",): st.tuples(ANYTHING, ANYTHING).map("{alert}".join),
}


@st.composite
def sites(draw: st.DrawFn) -> dict[str, Any]:
    """A configuration in which a few texts are whatever somebody may write."""
    data: dict[str, Any] = {"companions": {"slurm": {"enabled": True}}}
    for path in draw(st.lists(st.sampled_from(sorted(FREE)), max_size=4, unique=True)):
        section = data
        for name in path[:-1]:
            section = section.setdefault(name, {})
        section[path[-1]] = draw(FREE[path])
    return data


def targets(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        for each in (panel, *panel.get("panels", [])):
            yield from each.get("targets", [])


EXAMPLES = 300 if FULL else 30


@pytest.mark.heavy
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(data=sites())
def test_any_text_in_a_configuration_is_refused_or_gives_files_that_parse(data: dict[str, Any]) -> None:
    try:
        site = config.site(data, "here")
    except UserError as error:
        assert str(error).startswith("here: ")
        assume(False)
    for path, text in files(site).items():
        text.encode()
        if path.endswith(".json"):
            for target in targets(json.loads(text)):
                promql.parse(target["expr"])
        elif path.endswith((".yaml", ".example")):
            loaded = yaml.safe_load(text)
            for rule in (rule for group in loaded.get("groups", []) for rule in group["rules"]):
                promql_parser.parse(rule["expr"])
                if "alert" in rule:
                    own = site.alerts["NcclGpuLate"].labels if rule["alert"] == "NcclGpuLate" and site.alerts else {}
                    assert (site.alert_labels | own).items() <= rule["labels"].items()
                    assert rule["annotations"]["runbook_url"] == site.runbook_url.replace("{alert}", rule["alert"])


@settings(max_examples=30, deadline=None)
@given(value=ANYTHING, regex=ANYTHING)
def test_values_of_matchers_reach_every_selector_of_inspector_series_unchanged(value: str, regex: str) -> None:
    data = {
        "selector": f"site={quoted(value)}",
        "companions": {"textfile": {"file_regex": regex}, "slurm": {"enabled": True, "running": regex}},
    }
    try:
        site = config.site(data, "here")
    except UserError as error:
        assert "regular expression" in str(error)
        assume(False)
    own = {site.metric(key) for key in ("busbw", "exec", "p2p_busbw", "p2p_exec", "collectives")}
    seen = {"site": 0, "file": 0, site.companions.slurm.state_label: 0}
    for expr in build.signals(site).values():
        for selector in promql.selectors(promql_parser.parse(expr)):
            values = {each.label: each.value for each in selector.matchers}
            if selector.name in own:
                assert values["site"] == value
            for label in seen.keys() & values.keys():
                seen[label] += 1
                assert values[label] == (value if label == "site" else regex)
    assert all(seen.values())


def test_promtool_accepts_the_packs_of_a_site_that_writes_awkward_things() -> None:
    tool("promtool")
    awkward = 'it\'s "q" \\ <job> ${x} , } é'
    site = config.site(
        {
            "labels": {"cluster": "cluster"},
            "selector": f"site!={quoted(awkward)}, b=~'x|y',",
            "alert_labels": {"team": awkward, "empty": ""},
            "alerts": {"NcclJobDegraded": {"labels": {"route": "a\nb"}}},
            "runbook_url": "https://example.org/{alert}?q={x}&y=%20#'\"",
            "grafana": {"url": "https://example.org/grafana/"},
            "companions": {
                "textfile": {"file_regex": r'.*/"nccl"_\d+\.prom'},
                "slurm": {"enabled": True, "running": r'RUN"NING|\w+'},
                "throughput": {"expr": 'sum by (id) (mfu{a="}"})\n* 2', "job_label": "id"},
            },
        },
        "here",
    )
    packs = {path: text for path, text in files(site).items() if path.startswith("rules/") and "groups:" in text}
    assert len(packs) == 1 + len(Sensitivity)
    assert check_rules(packs) == []
    assert all(
        rule.labels["team"] == awkward
        for level in Sensitivity
        for group in build.alerts(site, level)
        for rule in group.alerts
    )
