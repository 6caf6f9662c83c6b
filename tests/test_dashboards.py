# SPDX-License-Identifier: Apache-2.0
"""The boards as people meet them: small enough to read, linked to each other, explained, coloured alike."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from grafana_models import misread, units
from processes import tool

from dashgen import build, catalogue, config, grafana, variables
from dashgen.boards import Board, references, variable_query
from dashgen.catalogue.metrics import METRICS
from dashgen.lint import lint
from dashgen.model import AlertRule, Sensitivity
from dashgen.prometheus import Server, make_blocks
from dashgen.recordings.format import Series

Json = dict[str, Any]

SITES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": {
        "companions": {
            **{name: {"enabled": True} for name in ("slurm", "switch_ports", "clock_events")},
            "throughput": {"preset": "megatron-otel"},
        },
        "acceptance": {"AllReduce": {"mixed": {"large": 300}}},
        "grafana": {"url": "https://grafana.example/"},
    },
    "clusters": {
        "labels": {"job": "job_name", "node": "kubernetes_node", "gpu": "device", "cluster": "site"},
        "selector": 'namespace="training"',
        "fabric": "xGMI",
        "grafana": {"uid_prefix": "x-", "url": "https://grafana.example"},
    },
    "bare": {
        "companions": {
            name: {"enabled": False}
            for name in (
                "textfile",
                "exporter_metrics",
                "counters",
                "dcgm",
                "infiniband",
                "hw_counters",
                "host_network",
            )
        }
    },
}
# A browser window of 1080p keeps about 840 pixels below the bars of browser, Grafana and variables; a grid unit and
# its gap are 38 of them.
FIRST_SCREEN = 22
MOST_PANELS = 30


@functools.cache
def made(site: str) -> dict[str, Json]:
    """The boards of a site as JSON."""
    built = build.bundle(config.site(SITES[site], "test"), ()).dashboards
    found: dict[str, Json] = json.loads(json.dumps(dict(built)))
    return found


on_every_board = pytest.mark.parametrize(("site", "slug"), [(site, slug) for site in SITES for slug in made(site)])


@functools.cache
def series(site: str) -> dict[str, frozenset[str]]:
    """The labels of every series that a site has."""
    own = config.site(SITES[site], "test")
    names = own.labels
    renamed = {"slurm_job_id": names.job, "node": names.node, "gpu": names.gpu}
    everywhere = {names.instance, *([names.cluster] if names.cluster else []), "namespace"}
    known = {
        # DCGM has a gpu label of its own.
        own.metric(each.key): frozenset(
            label if each.companion == "dcgm" else renamed.get(label, label) for label in each.labels
        )
        | everywhere
        for each in METRICS
    }
    for name in build.signals(own):
        labels = ",".join(build.fill(label, own) for label in catalogue.SIGNAL_BY_NAME[name].labels)
        known[name] = frozenset(labels.replace(" ", "").split(","))
    return known


def panels(board: Json) -> Iterator[Json]:
    for each in board["panels"]:
        yield from (each, *each.get("panels", []))


def drawn(board: Json) -> list[Json]:
    return [each for each in panels(board) if each["type"] != "row"]


def data_links(board: Json) -> Iterator[str]:
    for panel in drawn(board):
        defaults = panel["fieldConfig"]["defaults"].get("links") or []
        rules = [item for each in panel["fieldConfig"]["overrides"] for item in each["properties"]]
        overrides = [link for item in rules if item["id"] == "links" for link in item["value"]]
        yield from (link["url"] for link in (*defaults, *overrides))


def names_of(board: Json) -> list[str]:
    return [variable["name"] for variable in board["templating"]["list"]]


# What Grafana and the lint make of them.


@on_every_board
def test_no_rule_of_the_lint_finds_anything(site: str, slug: str) -> None:
    assert lint(made(site)[slug], series(site)) == []


@on_every_board
def test_grafanas_models_lose_nothing_of_any_board(site: str, slug: str) -> None:
    assert misread(made(site)[slug]) == []


@on_every_board
def test_grafana_knows_every_unit(site: str, slug: str) -> None:
    for panel in drawn(made(site)[slug]):
        rules = [item for each in panel["fieldConfig"]["overrides"] for item in each["properties"]]
        used = {panel["fieldConfig"]["defaults"]["unit"], *(item["value"] for item in rules if item["id"] == "unit")}
        assert used <= units(), panel["title"]


# What people see.


@on_every_board
def test_a_board_has_at_most_thirty_panels_and_answers_on_the_first_screen(site: str, slug: str) -> None:
    board = made(site)[slug]
    assert len(drawn(board)) <= MOST_PANELS
    rows = [each for each in board["panels"] if each["type"] == "row"]
    assert rows[0]["gridPos"]["y"] == 0 and not rows[0]["collapsed"]
    assert rows[1]["gridPos"]["y"] <= FIRST_SCREEN if len(rows) > 1 else _bottom(board) <= FIRST_SCREEN


def test_throughput_is_shown_in_the_unit_that_the_site_gives_it() -> None:
    own = config.site({"companions": {"throughput": {"metric": "tokens_rate", "unit": "tokens/s"}}}, "test")
    board: Json = build.bundle(own, ()).dashboards["job"]  # type: ignore[assignment]
    panel = next(each for each in drawn(board) if each["title"] == "Throughput")
    units_of = {
        each["matcher"]["options"]: item["value"]
        for each in panel["fieldConfig"]["overrides"]
        for item in each["properties"]
        if item["id"] == "unit"
    }
    assert units_of["/\\breported\\b/"] == "tokens/s"
    assert units_of["/\\btensor\\b/"] == "percentunit"


def test_a_board_that_could_show_nothing_is_not_there() -> None:
    assert set(made("defaults")) == {"fleet", "job", "outliers", "p2p", "fabric", "telemetry"}
    assert set(made("bare")) == set(made("defaults")) - {"fabric"}


def test_a_number_that_nobody_can_count_is_not_shown_as_zero() -> None:
    assert "GPUs hidden" in {each["title"] for each in drawn(made("defaults")["telemetry"])}
    assert "GPUs hidden" not in {each["title"] for each in drawn(made("bare")["telemetry"])}


@on_every_board
def test_detail_is_folded_away(site: str, slug: str) -> None:
    assert _bottom(made(site)[slug]) <= 2 * FIRST_SCREEN


def _bottom(board: Json) -> int:
    return max(int(each["gridPos"]["y"] + each["gridPos"]["h"]) for each in board["panels"])


@on_every_board
def test_a_description_asks_and_says_what_good_and_bad_look_like(site: str, slug: str) -> None:
    for panel in drawn(made(site)[slug]):
        text = panel["description"]
        assert 0 < text.find("?") < text.find(" Healthy: ") < text.find(" Bad: "), panel["title"]
        assert text.endswith("."), panel["title"]


@on_every_board
def test_a_transport_and_a_state_have_one_colour_everywhere(site: str, slug: str) -> None:
    for panel in drawn(made(site)[slug]):
        for rule in panel["fieldConfig"]["overrides"]:
            for name in ("nvlink", "network", "mixed"):
                if rule["matcher"]["options"] == f"/^{name}\\b/":
                    assert rule["properties"][0]["value"]["fixedColor"] == grafana.PALETTE[name]
        for mapping in panel["fieldConfig"]["defaults"]["mappings"]:
            for state in mapping["options"].values():
                role = {"healthy": "ok", "active": "ok", "degraded": "bad", "down": "bad"}.get(state["text"], "warn")
                assert state["color"] == grafana.PALETTE[role], state["text"]


@pytest.mark.parametrize("slug", ["fleet", "job", "outliers"])
def test_thresholds_in_panels_are_those_of_the_sensitivity(slug: str) -> None:
    low, high = (
        json.dumps(build.bundle(config.site({"sensitivity": each}, "test"), ()).dashboards[slug], sort_keys=True)
        for each in (Sensitivity.LOW, Sensitivity.HIGH)
    )
    assert low != high


@pytest.mark.parametrize("site", SITES)
def test_a_gap_longer_than_three_dumps_is_drawn_as_one(site: str) -> None:
    for board in made(site).values():
        for panel in drawn(board):
            if panel["type"] in ("timeseries", "state-timeline"):
                assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] == 90_000


def test_the_panels_of_a_transport_show_that_transport_and_no_other() -> None:
    words = {"within one": "nvlink", "(network)": "network", "(mixed)": "mixed"}
    found = 0
    for panel in drawn(made("everything")["job"]):
        for word, transport in words.items():
            if word in panel["title"]:
                found += 1
                for target in panel["targets"]:
                    assert set(re.findall(r'transport="(\w+)"', target["expr"])) == {transport}, panel["title"]
    assert found == 6


# Choices.


@on_every_board
def test_a_variable_offers_what_the_choices_before_it_leave(site: str, slug: str) -> None:
    before: set[str] = set()
    for variable in made(site)[slug]["templating"]["list"]:
        used = references(variable_query(variable))
        assert used <= before, variable["name"]
        # The data source is named beside the query; the rest of the choices narrow it.
        assert variable["type"] == "datasource" or {"cluster"} & before <= used, variable["name"]
        before.add(variable["name"])


def test_the_cluster_is_a_choice_only_where_there_are_several() -> None:
    assert {slug for slug, board in made("clusters").items() if "cluster" in names_of(board)} == set(made("clusters"))
    assert not any("cluster" in names_of(board) for board in made("defaults").values())


def test_every_panel_of_a_site_with_clusters_is_confined_to_the_chosen_ones() -> None:
    for slug, board in made("clusters").items():
        for panel in drawn(board):
            for target in panel["targets"]:
                confined = "$cluster" in target["expr"] or "$target" in target["expr"] or "$node" in target["expr"]
                assert confined, f"{slug}: {panel['title']}: {target['expr']}"


# Links.


@on_every_board
def test_every_link_leads_to_a_board_that_exists_and_sets_variables_that_it_has(site: str, slug: str) -> None:
    targets = {board["uid"]: board for board in made(site).values()}
    board = made(site)[slug]
    assert {link["url"] for link in board["links"]} == {f"/d/{uid}" for uid in targets if uid != board["uid"]}
    assert all(link["keepTime"] and link["includeVars"] for link in board["links"])
    for url in data_links(board):
        path, query = urlsplit(url).path, urlsplit(url).query
        other = targets[path.removeprefix("/d/")]
        assert "${__url_time_range}" in query
        carried = {name for name in references(url) if f"${{{name}:queryparam}}" in url}
        assert carried == {"datasource", *({"cluster"} & set(names_of(board)))}, url
        assert {name.removeprefix("var-") for name, _ in parse_qsl(query)} | carried <= set(names_of(other)), url


@pytest.mark.parametrize("site", ["everything", "clusters"])
@pytest.mark.parametrize("sensitivity", Sensitivity)
def test_every_alert_leads_to_a_board_and_to_a_panel_on_it(site: str, sensitivity: Sensitivity) -> None:
    own = config.site(SITES[site], "test")
    boards = {board["uid"]: board for board in made(site).values()}
    rules = [rule for group in build.alerts(own, sensitivity) for rule in group.rules if isinstance(rule, AlertRule)]
    for rule in rules:
        parts = urlsplit(rule.annotations["dashboard_url"])
        assert (parts.scheme, parts.netloc) == ("https", "grafana.example")
        board = boards[parts.path.removeprefix("/d/")]
        chosen = dict(parse_qsl(parts.query))
        assert {name.removeprefix("var-") for name in chosen} == {"job", "cluster"} & set(names_of(board)), rule.alert
        assert chosen["var-job"] == f"{{{{ $labels.{own.labels.job} | urlquery }}}}"
        (number,) = (dict(parse_qsl(urlsplit(rule.annotations["panel_url"]).query))["viewPanel"],)
        panel = next(each for each in drawn(board) if str(each["id"]) == number)
        assert panel["targets"], rule.alert


def test_without_the_address_of_grafana_alerts_have_no_links() -> None:
    assert build.alert_links(config.Site()) == {}


# On a real Prometheus.

NOW = 1_773_930_000.0


def moment(name: str, value: float, ago: float = 0.0, lasts: float = 300.0, **labels: str) -> Series:
    """A series that was there for a while, until so many seconds ago."""
    times = np.arange(NOW - ago - lasts, NOW - ago + 1, 30.0)
    return Series(name, tuple(sorted(labels.items())), times, np.full(len(times), value))


def ask(board: Json, title: str, data: list[Series], folder: Path, job: str = "7") -> list[list[Series]]:
    """What the queries of a panel return over the last three hours."""
    tool("promtool")
    tool("prometheus")
    make_blocks(folder, data)
    view = Board(board)
    panel = next(each for each in view.panels if each.title == title)
    values = variables.constants(view) | variables.macros(NOW - 10_800, NOW, 30, 30)
    values |= {"job": job, "transport": ".*", "collective": ".*", "node": ".*", "gpu": ".*"}
    with Server(folder) as server:
        filled = [(variables.fill(query.expr, values), query.target["instant"]) for query in panel.queries]
        return [
            server.query(expr, NOW) if instant else server.query_range(expr, NOW - 10_800, NOW, 30)
            for expr, instant in filled
        ]


def jobs(found: list[Series]) -> set[str]:
    return {dict(one.labels)["slurm_job_id"] for one in found}


def test_the_fleet_lists_jobs_that_are_hurt_or_just_were_with_their_last_suspect(tmp_path: Path) -> None:
    cause = {"transport": "mixed", "suspect": "network"}
    data = [
        moment("job:nccl_cause:depth", 0.2, slurm_job_id="now", **cause),
        moment(
            "job:nccl_cause:depth", 0.2, ago=300, lasts=60, slurm_job_id="now", transport="mixed", suspect="unknown"
        ),
        moment("job:nccl_cause:depth", 0.3, ago=900, slurm_job_id="just", **cause),
        moment("job:nccl_cause:depth", 0.4, ago=7200, slurm_job_id="long-ago", **cause),
        moment("job:nccl_quiet:seconds", 400, slurm_job_id="hung", evidence="spinning"),
        moment("job:nccl_quiet:seconds", 400, slurm_job_id="left-behind", evidence="gone"),
        *(moment("job:nccl_gpus:count", 8, slurm_job_id=job) for job in ("now", "just", "hung", "fine")),
    ]
    lost, _, quiet, gpus = ask(made("defaults")["fleet"], "Hurt jobs, worst first", data, tmp_path)
    assert [dict(one.labels)["suspect"] for one in lost] == ["network", "network"]
    assert jobs(lost) == {"now", "just"}
    assert jobs(quiet) == {"hung"}
    assert jobs(gpus) == {"now", "just", "hung"}


def test_the_timeline_of_the_fleet_has_a_line_for_each_job_that_was_hurt_and_no_other(tmp_path: Path) -> None:
    data = [
        moment("job:nccl_degraded:bool", 1, ago=3600, slurm_job_id="slow", transport="mixed"),
        moment("job:nccl_degraded:bool", 0, lasts=7200, slurm_job_id="slow", transport="nvlink"),
        moment("job:nccl_degraded:bool", 0, lasts=7200, slurm_job_id="fine", transport="mixed"),
        moment("job:nccl_quiet:seconds", 400, ago=1800, slurm_job_id="hung", evidence="none"),
    ]
    (found,) = ask(made("defaults")["fleet"], "Jobs degraded or quiet", data, tmp_path)
    states = {dict(one.labels)["slurm_job_id"]: set(one.values.tolist()) for one in found}
    assert states == {"slow": {0.0, 1.0}, "hung": {2.0}}


def test_the_usual_line_of_a_job_is_the_same_everywhere_and_leaves_degradation_out(tmp_path: Path) -> None:
    series = {"slurm_job_id": "7", "transport": "mixed", "collective": "AllReduce", "size_class": "large"}
    data = [
        Series(
            "job:nccl_busbw:max",
            tuple(sorted(series.items())),
            np.arange(NOW - 10_800, NOW + 1, 30.0),
            np.where(np.arange(361) < 100, 100.0, 50.0),
        ),
        moment("job:nccl_degraded:bool", 1, lasts=7800, slurm_job_id="7", transport="mixed"),
    ]
    title = "Bandwidth across domains, several ranks per node (mixed)"
    current, usual = ask(made("defaults")["job"], title, data, tmp_path)
    assert set(current[0].values.tolist()) == {50.0, 100.0}
    assert set(usual[0].values.tolist()) == {100.0}


def test_slurm_tells_user_partition_and_state_of_the_job(tmp_path: Path) -> None:
    row = {"job_id": "7", "user_name": "ada", "slurm_partition": "h100", "job_state": "RUNNING", "node": "n1"}
    data = [moment("slurm_job_info", 1, **row), moment("slurm_job_info", 1, **{**row, "job_id": "8"})]
    ((found,),) = ask(made("everything")["job"], "Slurm", data, tmp_path)
    table = next(each for each in drawn(made("everything")["job"]) if each["title"] == "Slurm")
    columns = table["transformations"][0]["options"]["include"]["names"]
    assert {name: dict(found.labels)[name] for name in columns} == {
        "user_name": "ada",
        "slurm_partition": "h100",
        "job_state": "RUNNING",
    }


def test_the_stage_between_a_long_send_and_a_long_receive_is_seen_node_by_node(tmp_path: Path) -> None:
    name = "nccl_p2p_exec_time_microseconds"
    data = [
        moment(name, value, slurm_job_id="7", node=node, gpu=f"GPU{gpu}", p2p_operation=operation, message_size="1-2MB")
        for node, operation, value in (("a", "Send", 900), ("b", "Send", 100), ("b", "Recv", 90), ("c", "Recv", 950))
        for gpu in range(3)
    ]
    receives, sends = ask(made("defaults")["p2p"], "Pipeline stages, now", data, tmp_path)
    assert {dict(one.labels)["node"]: one.values[-1] for one in receives} == {"b": 90, "c": 950}
    assert {dict(one.labels)["node"]: one.values[-1] for one in sends} == {"a": 900, "b": 100}
