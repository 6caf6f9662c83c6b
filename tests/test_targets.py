# SPDX-License-Identifier: Apache-2.0
"""Every target says what the files target says, in a form that its reader takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from processes import tool
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from targets import boards, documents, expected_rules, loaded, managed_groups, prometheus_groups, render

import dashgen
from dashgen import build, catalogue, durations
from dashgen.build.placeholders import evaluated_every, fill
from dashgen.config import site as config
from dashgen.errors import UserError
from dashgen.grafana.schema import UID
from dashgen.model import AlertRule, Bundle, RuleGroup, Sensitivity
from dashgen.targets import FORMATS, TARGETS, Pack
from dashgen.targets.grafana import rules as grafana_rules
from dashgen.targets.grafana.resources import folder_uid
from dashgen.targets.kubernetes import objects as kubernetes

SITES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "kubernetes": {
        "labels": {"job": "job_name", "cluster": "cluster"},
        "sensitivity": "high",
        "dump_interval": "60s",
        "grafana": {"folder": "GPU / Netz", "url": "https://grafana.example.com"},
        "alert_labels": {"price": "5$"},
        "targets": {"kubernetes": {"namespace": "monitoring", "labels": {"team": "hpc"}}},
    },
}
RULE_FILES = ("prometheus", "prometheusrule", "vmrule", "vmalert", "mimir", "thanos")
MANAGED = ("grafana-alerting", "grafana-operator", "terraform")
BOARDS = ("configmap", "grafana-operator", "resources", "mixin", "terraform")


def site(name: str, **targets: object) -> config.Site:
    data = deepcopy(SITES[name])
    data["targets"] = {**data.get("targets", {}), **targets}
    return config.site(data, "test")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("target", RULE_FILES)
def test_the_rule_groups_of_every_target_are_those_of_files(target: str, name: str) -> None:
    whole = site(name, vmalert={"keep_firing_for": True})
    assert prometheus_groups(target, whole) == expected_rules(whole, target)


def test_only_engines_that_store_results_after_the_evaluation_look_back_a_dump_further() -> None:
    window = {name: f"job:nccl_gpus:count[{span}]" for name, span in (("in order", "59s"), ("late", "1m59s"))}
    whole = site("defaults")
    for target in (*RULE_FILES, *MANAGED, "files"):
        text = "".join(render(target, whole).values())
        late = target in ("vmrule", "vmalert", "thanos", *MANAGED)
        assert (window["late"] in text, window["in order"] in text) == (late, not late), target
    assert window["late"] in run(sys.executable, "-m", "dashgen", "rules", "--format", "vmalert")
    assert window["late"] in render("files", whole.model_copy(update={"late_results": True}))["rules/recording.yaml"]


def test_victoriametrics_is_asked_for_the_very_moment_of_an_evaluation() -> None:
    further = {"group": {"params": {"extra_label": ["team=a"]}}}
    for name in ("vmalert", "vmrule"):
        for each in documents(render(name, site("defaults", **{name: further}))):
            for group in each.get("spec", each)["groups"]:
                assert group["params"] == {"nocache": ["1"], "extra_label": ["team=a"]}


def without_lookups(text: str) -> str:
    """An annotation without what Prometheus looks up while it writes it, which Grafana's templates cannot."""
    kept, depth = [], 0
    for part in re.split(r"(\{\{.*?\}\})", text):
        words = part.split()[1:3] if part.startswith("{{") else []
        if depth or words == ["range", "query"]:
            depth += words[:1] in (["if"], ["with"], ["range"])
            depth -= words[:1] == ["end"]
        else:
            kept.append(part)
    return "".join(kept)


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("target", MANAGED)
def test_the_rules_that_grafana_evaluates_are_those_of_files(target: str, name: str) -> None:
    expected = expected_rules(site(name), target)
    for group in expected.values():
        # Grafana evaluates in steps of ten seconds.
        group["interval"] = f"{-(-durations.seconds(group['interval']) // 10) * 10:.0f}s"
        for rule in group["rules"]:
            rule.pop("labels", None) if rule.get("labels") == {} else None
    found = managed_groups(target, site(name))
    assert [*found] == [*expected]
    for group_name, group in expected.items():
        for rule in group["rules"]:
            if "alert" in rule:
                rule["labels"] = {key: text.replace("$", '{{ "\\x24" }}') for key, text in rule["labels"].items()}
                rule["annotations"] = {key: without_lookups(text) for key, text in rule["annotations"].items()}
        assert found[group_name] == group


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("target", BOARDS)
def test_the_dashboards_of_every_target_are_those_of_files(target: str, name: str) -> None:
    expected = boards("files", site(name))
    assert len(expected) == len(build.dashboards(site(name)))
    if target == "mixin":
        expected = json.loads(json.dumps(expected))
    assert boards(target, site(name)) == expected


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_writes_below_its_own_folders_and_the_same_twice(target: str) -> None:
    first, second = (TARGETS[target].render(build.bundle(site("defaults")), site("defaults")) for _ in range(2))
    assert first == second
    assert {path.split("/")[0] for path in first} == set(TARGETS[target].owned)
    assert all(text.endswith("\n") and "\t\n" not in text for text in first.values())


@pytest.mark.parametrize("target", [*RULE_FILES, *MANAGED])
def test_a_folder_that_is_applied_as_a_whole_has_the_alerts_of_one_tier(target: str) -> None:
    low = build.bundle(site("defaults"), [Sensitivity.LOW])
    text = "".join(TARGETS[target].render(low, site("defaults")).values())
    assert set(re.findall(r'"?sensitivity"?: "?(\w+)', text)) == {"low"}
    assert set(re.findall(r'"?sensitivity"?: "?(\w+)', "".join(render(target, site("defaults")).values()))) == {
        "medium"
    }


# Programs that read them.


def test_promtool_loads_what_prometheus_and_its_operator_read(tmp_path: Path) -> None:
    for target in ("prometheus", "prometheusrule", "thanos", "mimir"):
        for number, each in enumerate(documents(render(target, site("kubernetes")))):
            groups = each.get("spec", each)["groups"]
            for group in groups:
                group.pop("partial_response_strategy", None)
            path = tmp_path / f"{target}-{number}.yaml"
            path.write_text(yaml.safe_dump({"groups": groups}))
            assert "SUCCESS" in run(tool("promtool"), "check", "rules", str(path))


@pytest.mark.parametrize("name", SITES)
def test_vmalert_loads_the_vmalert_target_and_the_rules_inside_vmrule(name: str, tmp_path: Path) -> None:
    old = site(name, vmrule={"keep_firing_for": False})
    for path, text in render("vmalert", old).items():
        (tmp_path / Path(path).name).write_text(text)
    for each in documents(render("vmrule", old)):
        (tmp_path / f"{each['metadata']['name']}.yaml").write_text(yaml.safe_dump(each["spec"]))
    run(tool("vmalert"), "-dryRun", f"-rule={tmp_path}/*.yaml")


def test_a_rule_of_vmalert_differs_from_prometheus_only_in_what_old_versions_refuse() -> None:
    expected = expected_rules(site("defaults"), "vmalert")
    for group in expected.values():
        for rule in group["rules"]:
            rule.pop("keep_firing_for", None)
    assert prometheus_groups("vmalert", site("defaults")) == expected


# Kubernetes objects, as their operators define them: prometheus-operator pkg/apis/monitoring/v1, VictoriaMetrics
# operator api/operator/v1beta1, grafana-operator api/v1beta1 (v5.24).


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


LabelValues = dict[str, Annotated[str, Field(max_length=63)]]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
PromDuration = Annotated[str, Field(pattern=r"^(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$", min_length=2)]
GoDuration = Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$")]
Uid = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", max_length=40)]


class Metadata(Strict):
    name: Name
    namespace: Name | None = None
    labels: LabelValues = {}
    annotations: dict[str, str] = {}


class Rule(Strict):
    alert: str | None = None
    record: str | None = None
    expr: Annotated[str, Field(min_length=1)]
    hold: PromDuration | None = Field(None, alias="for")
    keep_firing_for: PromDuration | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Group(Strict):
    name: Annotated[str, Field(min_length=1)]
    interval: PromDuration
    rules: list[Rule]
    limit: int | None = None
    labels: dict[str, str] | None = None
    query_offset: PromDuration | None = None
    partial_response_strategy: Annotated[str, Field(pattern="(?i)^(abort|warn)?$")] | None = None


class Groups(Strict):
    groups: list[Group]


class PrometheusRule(Strict):
    apiVersion: Literal["monitoring.coreos.com/v1"]
    kind: Literal["PrometheusRule"]
    metadata: Metadata
    spec: Groups


class VmGroup(Group):
    params: dict[str, list[str]] | None = None


class VmGroups(Strict):
    groups: list[VmGroup]


class VMRule(PrometheusRule):
    apiVersion: Literal["operator.victoriametrics.com/v1beta1"]  # type: ignore[assignment]
    kind: Literal["VMRule"]  # type: ignore[assignment]
    spec: VmGroups  # type: ignore[assignment]


class ConfigMap(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["ConfigMap"]
    metadata: Metadata
    data: dict[Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$")], str]


class Selector(Strict):
    matchLabels: Annotated[dict[str, str], Field(min_length=1)]


class Common(Strict):
    instanceSelector: Selector
    allowCrossNamespaceImport: bool
    resyncPeriod: GoDuration


class Folder(Common):
    title: str
    uid: Uid


class Dashboard(Common):
    folderRef: Name
    uid: Uid
    json_text: str | None = Field(None, alias="json")
    gzipJson: str | None = None


class Node(Strict):
    refId: str
    datasourceUid: str
    relativeTimeRange: dict[Literal["from", "to"], int]
    model: dict[str, JsonValue]


class Record(Strict):
    metric: str
    from_: str = Field(alias="from")


class ManagedRule(Strict):
    uid: Uid
    title: Annotated[str, Field(min_length=1, max_length=190)]
    condition: str
    data: Annotated[list[Node], Field(min_length=1)]
    hold: GoDuration = Field(alias="for")
    keepFiringFor: GoDuration | None = None
    noDataState: Literal["Alerting", "NoData", "OK", "KeepLast"]
    execErrState: Literal["OK", "Alerting", "Error", "KeepLast"]
    missingSeriesEvalsToResolve: Annotated[int, Field(ge=1)] | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    record: Record | None = None


class RuleGroupSpec(Common):
    folderRef: Name
    name: str
    interval: GoDuration
    rules: Annotated[list[ManagedRule], Field(min_length=1)]


SPECS = {"GrafanaFolder": Folder, "GrafanaDashboard": Dashboard, "GrafanaAlertRuleGroup": RuleGroupSpec}


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize(
    ("target", "model"), [("prometheusrule", PrometheusRule), ("vmrule", VMRule), ("configmap", ConfigMap)]
)
def test_kubernetes_objects_have_the_fields_that_their_definitions_know(
    target: str, model: type[Strict], name: str
) -> None:
    for each in documents(render(target, site(name))):
        model.model_validate(each)


@pytest.mark.parametrize("name", SITES)
def test_objects_of_the_grafana_operator_have_the_fields_that_their_definitions_know(name: str) -> None:
    found = list(documents(render("grafana-operator", site(name))))
    assert {each["kind"] for each in found} == set(SPECS)
    folder = next(each["metadata"]["name"] for each in found if each["kind"] == "GrafanaFolder")
    for each in found:
        assert each["apiVersion"] == "grafana.integreatly.org/v1beta1"
        Metadata.model_validate(each["metadata"])
        spec = SPECS[each["kind"]].model_validate(each["spec"])
        assert getattr(spec, "folderRef", folder) == folder
        if isinstance(spec, Dashboard):
            assert (spec.json_text is None) != (spec.gzipJson is None)


@pytest.mark.parametrize("target", ["configmap", "prometheusrule", "vmrule", "grafana-operator"])
def test_every_object_can_be_applied_from_the_client_and_no_two_share_a_name(target: str) -> None:
    files = render(target, site("kubernetes"))
    assert all(len(text.encode()) < kubernetes.CLIENT_SIDE_BYTES for text in files.values())
    found = [(each["kind"], each["metadata"]["name"]) for each in documents(files)]
    assert len(set(found)) == len(found)
    names = [name for each in documents(files, "ConfigMap") for name in each["data"]]
    assert len(set(names)) == len(names)


def test_an_object_says_when_it_is_too_large_for_the_client_and_is_refused_when_for_the_server() -> None:
    def document(size: int) -> str:
        return kubernetes.document(site("defaults"), ("v1", "ConfigMap"), "x", {"data": {"x.json": "x" * size}})

    assert "--server-side" not in document(200_000)
    assert "--server-side" in document(300_000)
    with pytest.raises(UserError, match=r"ConfigMap x: .* more than Kubernetes stores"):
        document(1_100_000)


def test_a_large_dashboard_is_compressed_for_the_grafana_operator() -> None:
    usual = site("defaults")
    bundle = build.bundle(usual)
    large = {**bundle.dashboards["job"], "description": "x" * 200_000}
    files = TARGETS["grafana-operator"].render(replace(bundle, dashboards={"job": large}), usual)
    assert len(files["grafana-operator/dashboards/job.yaml"]) < 50_000
    assert "gzipJson" in files["grafana-operator/dashboards/job.yaml"]


def test_a_site_names_labels_and_selects_its_objects() -> None:
    wanted = site(
        "defaults",
        kubernetes={"namespace": "obs", "name_prefix": "gpu", "labels": {"a": "b"}, "annotations": {"x.org/y": "z z"}},
        prometheusrule={"labels": {"release": "monitoring"}, "group": {"limit": 100}},
        grafana_operator={"instance_selector": {"grafana": "main"}, "resync_period": "1h"},
        configmap={"labels": {"dash": "yes"}, "folder_annotation": "k8s-sidecar-target-directory"},
        mimir={"namespace": "hpc", "group": {"source_tenants": ["x"]}},
    )
    rule = next(documents(render("prometheusrule", wanted)))
    assert rule["metadata"]["name"].startswith("gpu-") and rule["metadata"]["namespace"] == "obs"
    assert rule["metadata"]["labels"] == {"a": "b", "release": "monitoring"}
    assert all(group["limit"] == 100 for group in rule["spec"]["groups"])
    config_map = next(documents(render("configmap", wanted)))
    assert config_map["metadata"]["labels"] == {"a": "b", "dash": "yes"}
    assert config_map["metadata"]["annotations"] == {
        "kustomize.toolkit.fluxcd.io/substitute": "disabled",
        "x.org/y": "z z",
        "k8s-sidecar-target-directory": "NCCL",
    }
    board = next(documents(render("grafana-operator", wanted), "GrafanaDashboard"))
    assert board["spec"]["instanceSelector"] == {"matchLabels": {"grafana": "main"}}
    namespaces = [each["namespace"] for each in documents(render("mimir", wanted))]
    assert namespaces == ["hpc-recording", "hpc-alerts"]
    assert all(
        group["source_tenants"] == ["x"] for each in documents(render("mimir", wanted)) for group in each["groups"]
    )


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ({"prometheusrule": {"group": {"rules": []}}}, "targets.prometheusrule.group.rules"),
        ({"kubernetes": {"namespace": "Not_A_Name"}}, "targets.kubernetes.namespace"),
        ({"kubernetes": {"labels": {"a/b/c": "c"}}}, "targets.kubernetes.labels.a/b/c: 'a/b/c' is no key that"),
        ({"kubernetes": {"labels": {"app": "-x-"}}}, "targets.kubernetes.labels.app: '-x-' is no value of a label"),
        ({"kubernetes": {"annotations": {"Big.org/a": "c"}}}, "targets.kubernetes.annotations.Big.org/a"),
        ({"prometheusrule": {"labels": {"release": "x" * 64}}}, "targets.prometheusrule.labels.release"),
        ({"configmap": {"folder_annotation": "a b"}}, "targets.configmap.folder_annotation"),
        ({"grafana_operator": {"instance_selector": {}}}, "targets.grafana_operator.instance_selector"),
        ({"grafana_alerting": {"datasource_uid": "${DS}"}}, "targets.grafana_alerting.datasource_uid"),
        ({"vmrules": {}}, "targets.vmrules: no such key"),
    ],
)
def test_a_wrong_key_of_a_target_is_named(targets: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        config.site({"targets": targets}, "test")


@pytest.mark.parametrize("target", ["prometheusrule", "configmap", "vmrule", "grafana-operator"])
def test_what_helm_makes_of_an_escaped_object_is_the_object(target: str) -> None:
    helm = render(target, site("defaults", kubernetes={"helm": True}))
    # What a Go template does with {{`...`}}: it prints what stands between the backquotes.
    printed = {path: re.sub(r"\{\{`(.*?)`\}\}", r"\1", text) for path, text in helm.items()}
    assert printed == render(target, site("defaults"))
    assert not any("{{" in text.replace("{{`{{`}}", "") for text in helm.values())


def test_flux_leaves_the_data_source_variable_alone() -> None:
    for each in documents(render("configmap", site("kubernetes"))):
        assert each["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/substitute"] == "disabled"


# Grafana-managed rules.


@pytest.mark.parametrize("name", SITES)
def test_provisioned_rules_have_what_grafana_asks_for(name: str) -> None:
    groups = [group for each in documents(render("grafana-alerting", site(name))) for group in each["groups"]]
    uids = [rule["uid"] for group in groups for rule in group["rules"]]
    assert len(set(uids)) == len(uids)
    for group in groups:
        assert group["folder"] and int(group["interval"].removesuffix("s")) % 10 == 0
        for rule in group["rules"]:
            assert list(grafana_rules.problems(rule)) == []
            if "record" not in rule:
                assert [node["datasourceUid"] for node in rule["data"]] == ["prometheus", "__expr__", "__expr__"]
                assert rule["noDataState"] == "OK" and rule["annotations"]["__dashboardUid__"]


def broken(change: str) -> dict[str, Any]:
    """A good alert with one thing wrong."""
    found = loaded(render("grafana-alerting", site("defaults"))["grafana-alerting/nccl-alerts.yaml"])
    rule: dict[str, Any] = found["groups"][0]["rules"][0]
    exec(change, {"rule": rule})
    return rule


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("rule['uid'] = 'x' * 41", "uid has 1 to 40"),
        ("rule['uid'] = 'a:b'", "uid has 1 to 40"),
        ("del rule['uid']", "uid has 1 to 40"),
        ("rule['title'] = ''", "title has 1 to 190"),
        ("rule['title'] = 'x' * 191", "title has 1 to 190"),
        ("rule['data'] = []", "needs data"),
        ("rule['data'][1]['refId'] = 'A'", "refId of its own"),
        ("rule['condition'] = 'D'", "the condition names"),
        ("del rule['condition']", "the condition names"),
        ("rule['noDataState'] = 'Ok'", "noDataState"),
        ("rule['execErrState'] = 'NoData'", "execErrState"),
        ("rule['data'][0]['datasourceUid'] = '${datasource}'", "variable means nothing"),
        ("del rule['data'][0]['datasourceUid']", "no datasourceUid"),
        ("rule['data'][0]['model']['instant'] = False", "instant query"),
        ("rule['data'][0]['model']['refId'] = 'Z'", "another refId"),
        ("rule['data'][1]['model']['expression'] = '$Q > 1'", "reads no node"),
        ("rule['data'][2]['model']['expression'] = 'Q'", "on no node"),
        ("rule['data'][2]['model']['conditions'] = []", "has conditions"),
        ("rule['data'][2]['model']['type'] = 'classic'", "neither math nor threshold"),
        ("rule['labels']['team'] = '$TEAM'", "from its environment"),
        ("rule['annotations']['summary'] = '{{ $labels.x }}'", "from its environment"),
        ("rule['record'] = {'metric': '', 'from': 'A'}", "names its metric"),
    ],
)
def test_the_validator_finds_what_grafana_would_refuse(change: str, says: str) -> None:
    assert any(says in problem for problem in grafana_rules.problems(broken(change)))


@pytest.mark.parametrize(
    ("prometheus", "grafana"),
    [
        ("{{ $labels.node }}: {{ $value | humanize }}", "{{ .Labels.node }}: {{ .Values.A.Value | humanize }}"),
        ('{{ if eq $labels.a "b" }}x{{ end }}', '{{ if eq .Labels.a "b" }}x{{ end }}'),
        (
            "{{ with $labels.a }}{{ . }}{{ end }} {{ $labels.b }}",
            "{{ with .Labels.a }}{{ . }}{{ end }} {{ .Labels.b }}",
        ),
        (
            'slow{{ range query "x" }}{{ if eq .Labels.a $labels.a }} {{ .Value }}{{ end }}{{ end }} {{ $value }}',
            "slow {{ .Values.A.Value }}",
        ),
        ('{{ range  query "}}" }}{{ .Value }}{{ end }}{{ $value }}', "{{ .Values.A.Value }}"),
        ("costs 5$", 'costs 5{{ "\\x24" }}'),
    ],
)
def test_templates_are_written_without_a_dollar(prometheus: str, grafana: str) -> None:
    assert grafana_rules.template(prometheus, "here") == grafana


@pytest.mark.parametrize(
    "text",
    [
        "{{ with $labels.a }}{{ $labels.b }}{{ end }}",
        '{{ with $labels.a }}{{ if(eq . "b") }}x{{ end }}{{ $labels.c }}{{ end }}',
        "{{ $x := 1 }}",
        "{{ range query }}{{ $value }}",
    ],
)
def test_a_template_that_grafana_would_read_otherwise_is_an_error(text: str) -> None:
    with pytest.raises(UserError, match=r"here: Grafana-managed rules cannot say"):
        grafana_rules.template(text, "here")


def test_two_alerts_of_one_name_are_refused_where_grafana_tells_rules_apart_by_name() -> None:
    here = site("defaults")
    made = build.bundle(here, [Sensitivity.MEDIUM])
    first, *others = made.alerts[Sensitivity.MEDIUM]
    twice = RuleGroup(name="nccl-more", interval=first.interval, rules=first.rules[:1])
    changed = replace(made, alerts={Sensitivity.MEDIUM: (first, *others, twice)})
    for target in ("grafana-alerting", "grafana-operator", "terraform"):
        with pytest.raises(UserError, match=rf"two rules are called {first.rules[0].alert}; .* rename one"):
            TARGETS[target].render(changed, here)
    alike = [replace(first.rules[0], alert=name) for name in ("My alert", "My-alert")]
    changed = replace(made, alerts={Sensitivity.MEDIUM: (replace(twice, rules=tuple(alike)),)})
    with pytest.raises(UserError, match=r"two rules are called My alert; "):
        TARGETS["grafana-alerting"].render(changed, here)


def test_folders_that_differ_in_what_no_uid_can_hold_have_uids_of_their_own() -> None:
    def uid(folder: str, prefix: str = "dashgen-") -> str:
        here = config.site({"grafana": {"folder": folder, "uid_prefix": prefix}}, "test")
        return folder_uid(build.bundle(here, [Sensitivity.LOW]), here)

    assert uid("NCCL") == "dashgen-nccl" and uid("NCCL", "") == "nccl"
    long = "Machine learning platform team"
    pairs = [
        (uid(a, prefix), uid(b, prefix))
        for a, b in (("日本", "中国"), (f"{long} north", f"{long} south"))
        for prefix in ("", "a-")
    ]
    assert all(a != b and UID.fullmatch(a) and UID.fullmatch(b) for a, b in pairs)


@pytest.mark.parametrize("target", ["vmalert", "vmrule"])
def test_what_vmalert_would_fill_in_from_its_environment_is_refused(target: str) -> None:
    here = config.site({"alert_labels": {"team": "a-%{SECRET}-b"}}, "test")
    with pytest.raises(UserError, match=r"a-%\{SECRET\}-b: vmalert would fill it in .* write it without"):
        TARGETS[target].render(build.bundle(here, [Sensitivity.LOW]), here)


def test_a_long_name_gets_a_uid_that_grafana_takes_and_that_is_its_own() -> None:
    names = [f"job:nccl_a_very_long_name_of_a_signal:{end}" for end in ("max", "min")]
    uids = [grafana_rules.rule_uid(site("defaults"), name) for name in names]
    assert len(set(uids)) == 2 and all(len(uid) <= 40 for uid in uids)


def test_grafana_is_not_asked_more_often_than_it_can() -> None:
    fast = RuleGroup(name="x", interval="1s", rules=())
    assert grafana_rules.interval(fast) == 10
    assert grafana_rules.interval(replace(fast, interval="45s")) == 50


def test_grafana_finds_as_many_results_in_a_window_as_a_rule_asks_for_at_every_dump_interval() -> None:
    rules = "".join(signal.expr for signal in catalogue.SIGNALS) + "".join(alert.expr for alert in catalogue.ALERTS)
    asked = sorted({int(dumps) for dumps in re.findall(r"<(\d+) dumps in a row>", rules)})
    assert {2, 3, 10} <= {*asked}
    for dump in range(10, 601):
        late = config.Site(dump_interval=dump, late_results=True)
        group = RuleGroup(name="x", interval=durations.text(evaluated_every(late)), rules=())
        every = grafana_rules.interval(group)
        for dumps in asked:
            window = durations.seconds(fill(f"<{dumps} dumps in a row>", late))
            # The newest result is stored after the evaluation that reads.
            found = sum(age <= window for age in range(every, 12 * dump, every))
            assert found == int(fill(f"<{dumps} results>", late)), f"{dumps} dumps of {dump} s"
            assert (dumps - 1) * dump <= (found - 1) * every
        assert every <= 60 and durations.seconds(fill("<this_and_last>", late)) // every == 3 - 1


def test_dumps_that_come_more_often_than_grafana_evaluates_are_refused() -> None:
    found = config.Site(dump_interval=9)
    for target in MANAGED:
        own = TARGETS[target].site(found)
        with pytest.raises(UserError, match=r"Grafana evaluates rules every 10 seconds .*; set dump_interval to 10s"):
            TARGETS[target].render(build.bundle(own, [Sensitivity.LOW]), own)


def test_a_rule_that_grafana_cannot_express_is_an_error_and_not_a_file() -> None:
    rule = AlertRule(alert="X" * 200, expr="1", for_="", keep_firing_for="", labels={}, annotations={})
    empty = Bundle(dashboards={}, recording=(), alerts={}, runbooks={}, alertmanager={})
    pack = Pack("nccl", (RuleGroup(name="g", interval="30s", rules=(rule,)),))
    with pytest.raises(UserError, match="title has 1 to 190"):
        FORMATS["grafana-alerting"](pack, empty, site("defaults"))


def test_rules_that_shall_go_are_listed_for_deletion() -> None:
    wanted = site("defaults", grafana_alerting={"delete": ["old-rule"]})
    found = [each.get("deleteRules") for each in documents(render("grafana-alerting", wanted))]
    assert found == [None, [{"orgId": 1, "uid": "old-rule"}]]


# Examples.

EXAMPLES = Path(dashgen.__file__).parent / "examples"


def test_the_compose_example_mounts_what_a_build_writes_and_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    for path, text in render("files", site("defaults")).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    stack = loaded((EXAMPLES / "compose.yaml").read_text())
    mounts = [volume for service in stack["services"].values() for volume in service.get("volumes", [])]
    inside = {}
    for mount in mounts:
        source, target = re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", mount).split(":")[:2]
        if source.startswith("./") and source != "./textfile":
            assert (tmp_path / source).exists(), source
            inside[target] = tmp_path / source
    provider = loaded((tmp_path / "dashboards/provisioning/dashboards/dashgen.yaml").read_text())["providers"][0]
    assert provider["options"]["path"] in inside
    prometheus = loaded(stack["configs"]["prometheus"]["content"])
    assert prometheus["rule_files"] == ["/etc/prometheus/rules/*.yaml"]
    prometheus["rule_files"] = [
        str(path) for target, path in inside.items() if target.startswith("/etc/prometheus/rules")
    ]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(prometheus))
    assert "2 rule files found" in run(tool("promtool"), "check", "config", str(tmp_path / "prometheus.yml"))
    source = loaded(stack["configs"]["datasources"]["content"])["datasources"][0]
    assert source["uid"] == grafana_rules.GrafanaAlertingKeys().datasource_uid


@pytest.mark.parametrize("name", ["github-actions.yaml", "gitlab-ci.yaml", "../../.pre-commit-hooks.yaml"])
def test_the_commands_of_the_examples_exist_with_their_options(name: str) -> None:
    import typer

    from dashgen.cli.main import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    found = re.findall(r"(?:run:|entry:|^ *-?) *dashgen (\w+)(.*)", (EXAMPLES / name).read_text(), re.MULTILINE)
    assert found
    for command, rest in found:
        known = {option for parameter in commands[command].params for option in parameter.opts}
        assert set(re.findall(r"--\w+", rest)) <= known, command


DOCS = Path(dashgen.__file__).parent / "docs"


def test_the_commands_of_the_target_page_run_and_its_table_names_every_target(tmp_path: Path) -> None:
    from command import dashgen as command

    page = (DOCS / "targets.md").read_text()
    assert set(re.findall(r"^\| \[`([\w-]+)`\]\(#[\w-]+\) \|", page, re.MULTILINE)) == set(TARGETS)
    for line in re.findall(r"^dashgen (.*?)(?: +#.*)?$", page, re.MULTILINE):
        done = command(*line.split(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for text in re.findall(r"`targets: (\{.*?\})`", page):
        config.site({"targets": loaded(text)}, "page")


def test_a_dollar_in_a_folder_is_not_filled_in_by_the_environment_of_grafana() -> None:
    found = config.site({"grafana": {"folder": "Team $A ${B} $$"}}, "test")
    made = build.bundle(found, [Sensitivity.LOW])
    provider = loaded(TARGETS["files"].render(made, found)["dashboards/provisioning/dashboards/dashgen.yaml"])
    managed = TARGETS["grafana-alerting"].render(made, found).values()
    folders = {group["folder"] for text in managed for group in loaded(text)["groups"]}
    assert {provider["providers"][0]["folder"], *folders} == {"Team $$A $${B} $$$$"}


def test_further_keys_of_groups_are_written_as_they_were_given() -> None:
    given = {
        "prometheus": {"group": {"limit": 9, "query_offset": "1m30s", "labels": {"team": "a"}}},
        "thanos": {"group": {"limit": 9}},
        "mimir": {"group": {"source_tenants": ["a", "b"], "align_evaluation_time_on_interval": True}},
        "vmalert": {"group": {"headers": ["X-Scope: 1"], "params": {"nocache": ["0"]}, "tenant": "1:2"}},
    }
    found = site("defaults", **given)
    made = build.bundle(found, [Sensitivity.LOW])
    for name, section in given.items():
        for text in TARGETS[name].render(made, found).values():
            for group in loaded(text)["groups"]:
                assert section["group"].items() <= group.items()
                assert group.get("partial_response_strategy") == ("abort" if name == "thanos" else None)
