# SPDX-License-Identifier: Apache-2.0
"""The boards as people meet them: small enough to read, linked to each other, explained, coloured alike."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from board_answers import NOW, ask, moment
from grafana_models import misread, units

from dashgen import build, catalogue
from dashgen.catalogue.boards import templates
from dashgen.catalogue.boards.verdicts import STATES
from dashgen.catalogue.metrics import METRICS, upstream
from dashgen.config import site as config
from dashgen.grafana import dashboard as grafana
from dashgen.grafana.parsed import references, variable_query
from dashgen.lint.rules import lint
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series

Json = dict[str, Any]

SITES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": {
        "companions": {
            **{name: {"enabled": True} for name in ("slurm", "switch_ports", "clock_events", "p2p")},
            "throughput": {"preset": "megatron-otel"},
        },
        "acceptance": {"AllReduce": {"mixed": {"large": 300}}},
        "grafana": {"url": "https://grafana.example/"},
    },
    "clusters": {
        "labels": {"job": "job_name", "node": "kubernetes_node", "gpu": "device", "cluster": "site"},
        "selector": 'namespace="training"',
        "fabric": "xGMI",
        "grafana": {"uid_prefix": "x-", "url": "https://grafana.example", "alertmanager": "Main & spare"},
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
STATE_COLOURS = {
    "healthy": "ok",
    "network": "network",
    "NVLink": "nvlink",
    "xGMI": "nvlink",
    "late": "warn",
    "silent": "bad",
    "no data": "neutral",
    "recovering": "info",
    "gone": "neutral",
    "unknown": "neutral",
    "active": "ok",
    "down": "bad",
    "initialising": "warn",
    "armed": "warn",
}
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


@pytest.mark.parametrize("dump", [30, 75, 120, 300, 600])
def test_boards_of_rare_dumps_are_without_fault_and_look_at_an_exporter_as_often(dump: int) -> None:
    built = build.bundle(config.site({**SITES["everything"], "dump_interval": dump}, "test"), ()).dashboards
    boards: dict[str, Json] = json.loads(json.dumps(dict(built)))
    assert {slug: found for slug, board in boards.items() if (found := lint(board))} == {}
    asked = [target for panel in drawn(boards["fabric"]) for target in panel["targets"]]
    rates = [target["interval"] for target in asked if "$__rate_interval" in target["expr"]]
    assert len(rates) > 10 and {*rates} == {"30s"}


@on_every_board
def test_grafanas_models_lose_nothing_of_any_board(site: str, slug: str) -> None:
    assert misread(made(site)[slug]) == []


@on_every_board
def test_grafana_knows_every_unit(site: str, slug: str) -> None:
    for panel in drawn(made(site)[slug]):
        rules = [item for each in panel["fieldConfig"]["overrides"] for item in each["properties"]]
        used = {panel["fieldConfig"]["defaults"]["unit"], *(item["value"] for item in rules if item["id"] == "unit")}
        assert {unit for unit in used if not unit.startswith("suffix:")} <= units(), panel["title"]


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
    assert units_of["/\\bcollectives\\b/"] == "ops"


def test_a_board_that_could_show_nothing_is_not_there() -> None:
    assert set(made("everything")) == {each.slug for each in templates(Sensitivity.MEDIUM)}
    assert "p2p" in set(made("everything")) - set(made("defaults"))
    assert "fabric" in set(made("defaults")) - set(made("bare"))


def test_a_number_that_nobody_can_count_is_not_shown_as_zero() -> None:
    assert "Nodes that hide GPUs" in {each["title"] for each in drawn(made("defaults")["telemetry"])}
    assert "Nodes that hide GPUs" not in {each["title"] for each in drawn(made("bare")["telemetry"])}


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
def test_a_transport_a_cause_and_a_state_have_one_colour_everywhere(site: str, slug: str) -> None:
    for panel in drawn(made(site)[slug]):
        for rule in panel["fieldConfig"]["overrides"]:
            for name in ("nvlink", "network", "mixed"):
                if rule["matcher"]["options"] == f"/^{name}\\b/":
                    assert rule["properties"][0]["value"]["fixedColor"] == grafana.PALETTE[name]
        for mapping in panel["fieldConfig"]["defaults"]["mappings"]:
            for state in mapping["options"].values():
                assert state["color"] == grafana.PALETTE[STATE_COLOURS[state["text"]]], state["text"]


@pytest.mark.parametrize("slug", ["fleet", "job", "telemetry"])
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
    assert found == 3


def test_what_runbooks_name_on_a_board_is_there() -> None:
    words = {"Job": "job", "Outlier": "outliers", "Fabric": "fabric", "Telemetry": "telemetry"}
    there = {
        slug: [part.title.lower() for row in board.rows for part in (row, *row.panels)]
        for board in build.dashboards(config.Site())
        if (slug := board.slug) in words.values()
    }
    found = 0
    for alert in catalogue.ALERTS:
        for step in (*alert.runbook.look_first, *alert.runbook.tell_apart, *alert.runbook.act):
            for board, named in re.findall(r"([A-Z]\w+) board, ([^:.?]+)", step):
                found += 1
                assert any(title.startswith(named.lower()) for title in there[words[board]]), f"{alert.name}: {step}"
    assert found > 5


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
    label = SITES["clusters"]["labels"]["cluster"]
    shared = {"instance", "Hostname", *SITES["clusters"]["labels"].values()} - {label}
    for slug, board in made("clusters").items():
        for panel in drawn(board):
            for target in panel["targets"]:
                where, expr = f"{slug}: {panel['title']}: {target['expr']}", target["expr"]
                assert "$cluster" in expr, where
                # What exporters say of a node or a target is said of one of that name in the next cluster as well.
                for joined in (set(found.split(", ")) for found in re.findall(r"\bon \(([^)]+)\)", expr)):
                    assert label in joined or not joined & shared, where


# Links.


@on_every_board
def test_every_link_leads_to_a_board_that_exists_and_sets_variables_that_it_has(site: str, slug: str) -> None:
    targets = {board["uid"]: board for board in made(site).values()}
    board = made(site)[slug]
    assert {urlsplit(link["url"]).path for link in board["links"]} == {
        f"/d/{uid}" for uid in targets if uid != board["uid"]
    }
    for link in board["links"]:
        # The job is called otherwise on two boards, and several jobs are no choice of one.
        ours, theirs = (
            {"job", "jobs", "jobid"} & set(names_of(each)) for each in (board, targets[urlsplit(link["url"]).path[3:]])
        )
        handed = bool(ours and theirs and ours != theirs) and slug != "telemetry"
        expected = [(f"var-{name}", f"${{{own}}}") for name in theirs for own in ours] if handed else []
        assert parse_qsl(urlsplit(link["url"]).query) == expected, link["url"]
    assert all(link["keepTime"] and link["includeVars"] for link in board["links"])
    for url in data_links(board):
        if url.startswith("/alerting/silence/new?"):
            asked = parse_qsl(urlsplit(url).query)
            assert site == "clusters" and asked[0] == ("alertmanager", "Main & spare")
            assert ("matcher", "site=~${cluster:regex}") in asked
            continue
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
    rules = [rule for group in build.alerts(own, sensitivity) for rule in group.alerts]
    for rule in rules:
        # When the verdict began is looked up as the page is written.
        board_url, panel_url = (
            re.sub(r"\{\{ range .*\}\}(&from=)\{\{.*?\}\}(&to=now)\{\{.*\}\}", r"\g<1>5\2", rule.annotations[each])
            for each in ("dashboard_url", "panel_url")
        )
        parts = urlsplit(board_url)
        assert (parts.scheme, parts.netloc) == ("https", "grafana.example")
        board = boards[parts.path.removeprefix("/d/")]
        chosen = dict(parse_qsl(parts.query))
        began = {"from", "to"} if catalogue.ALERT_BY_NAME[rule.alert].signal == VERDICT else set()
        # A switch port is at no job's board.
        of_job = catalogue.SIGNAL_BY_NAME[catalogue.ALERT_BY_NAME[rule.alert].signal].of_a_job
        wanted = {"job", "jobs", "cluster"} & set(names_of(board)) if of_job else set()
        assert {name.removeprefix("var-") for name in chosen} == wanted | began, rule.alert
        assert chosen.get("var-jobs" if "jobs" in wanted else "var-job") == (
            f"{{{{ $labels.{own.labels.job} | urlquery }}}}" if of_job else None
        )
        (number,) = (dict(parse_qsl(urlsplit(panel_url).query))["viewPanel"],)
        panel = next(each for each in drawn(board) if str(each["id"]) == number)
        assert panel["targets"], rule.alert


def test_without_the_address_of_grafana_alerts_have_no_links() -> None:
    assert build.alert_links(config.Site()) == {}


# On a real Prometheus.

VERDICT = "job:nccl_verdict:depth"
TIMELINE = "State and cause by job"


def jobs(found: list[Series]) -> set[str]:
    return {dict(one.labels)["slurm_job_id"] for one in found}


def verdict(
    job: str,
    state: str,
    value: float = 0.0,
    ago: float = 0.0,
    lasts: float = 300.0,
    about: Mapping[str, str] = MappingProxyType({}),
) -> Series:
    """What the rules record of a job's state; ``about`` says who is the suspect."""
    times = moment(VERDICT, value, ago, lasts)
    return replace(times, labels=tuple(sorted({"slurm_job_id": job, "state": state, **about}.items())))


NETWORK = {"suspect": "network", "transport": "mixed"}
LATE = {"suspect": "straggler", "node": "n3", "gpu": "GPU5"}


def test_the_fleet_lists_jobs_that_are_hurt_or_just_were_with_their_last_suspect(tmp_path: Path) -> None:
    data = [
        verdict("now", "degraded", 0.2, about=NETWORK),
        verdict("now", "degraded", 0.3, ago=330, lasts=60, about=LATE),
        verdict("just", "healthy", lasts=900),
        verdict("just", "degraded", 0.3, ago=930, about=LATE),
        verdict("just", "degraded", 0.5, ago=1260, about=NETWORK),
        verdict("long-ago", "healthy", lasts=6000),
        verdict("long-ago", "degraded", 0.4, ago=7200, about=NETWORK),
        verdict("hung", "stalled", 1),
        verdict("left-behind", "gone", 1),
        verdict("fine", "healthy"),
        *(moment("job:nccl_verdict:since", NOW - 240, slurm_job_id=job) for job in ("now", "hung", "left-behind")),
        *(moment("job:nccl_gpus:count", 8, slurm_job_id=job) for job in ("now", "just", "hung", "fine")),
        *(
            moment("job:training_throughput_loss:ratio", 0.1, slurm_job_id=job, evidence="reported")
            for job in ("now", "just", "fine")
        ),
    ]
    panel = "Hurt jobs, worst first"
    rows, since, lasts, lost, cost, peak, gpus = ask(made("defaults")["fleet"], panel, data, tmp_path)
    said = {dict(one.labels)["slurm_job_id"]: (dict(one.labels), one.values[-1]) for one in rows}
    assert len(rows) == len(said) == 3
    for job, state, suspect, depth in (
        ("now", "degraded", NETWORK, 0.2),
        ("just", "healthy", LATE, 0.0),
        ("hung", "stalled", {}, 1.0),
    ):
        labels = {name: value for name, value in said[job][0].items() if name != "__name__"}
        assert labels == {"slurm_job_id": job, "state": state, **suspect}
        assert said[job][1] == depth
    assert {dict(one.labels)["slurm_job_id"]: one.values[-1] for one in since} == dict.fromkeys(
        ("now", "hung"), (NOW - 240) * 1000
    )
    assert [one.values[-1] for one in lasts] == [240, 240]
    assert jobs(lost) == {"now"}
    # A job that stands still loses all of its eight GPUs.
    hours = {dict(one.labels)["slurm_job_id"]: one.values[-1] for one in cost}
    assert hours == pytest.approx({"now": 0.1 * 8 * 240 / 3600, "hung": 8 * 240 / 3600})
    assert {dict(one.labels)["slurm_job_id"]: one.values[-1] for one in peak} == {"now": 0.3, "just": 0.5, "hung": 1.0}
    assert jobs(gpus) == {"now", "just", "hung"}


def test_the_timeline_of_the_fleet_has_a_line_for_each_job_that_was_hurt_and_no_other(tmp_path: Path) -> None:
    data = [
        verdict("slow", "unknown", ago=7200),
        verdict("slow", "degraded", 0.0, ago=3600, about=NETWORK),
        verdict("slow", "recovering", ago=3270, lasts=270),
        verdict("slow", "healthy", lasts=2700),
        verdict("late", "degraded", 0.2, about=LATE),
        verdict("links", "degraded", 0.2, about={"suspect": "nvlink", "transport": "nvlink", "node": "n1"}),
        verdict("hung", "stalled", 1, ago=1800),
        verdict("hung", "gone", 1, ago=1200),
        verdict("fine", "healthy", lasts=7200),
    ]
    panel = next(each for each in drawn(made("defaults")["fleet"]) if each["title"] == TIMELINE)
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    (found,) = ask(made("defaults")["fleet"], TIMELINE, data, tmp_path)
    states = {
        dict(one.labels)["slurm_job_id"]: {mapping["options"][str(int(value))]["text"] for value in one.values}
        for one in found
    }
    assert len(found) == len(states)
    assert states == {
        "slow": {"unknown", "network", "recovering", "healthy"},
        "late": {"late"},
        "links": {"NVLink"},
        "hung": {"silent", "gone"},
    }


def test_a_timeline_always_has_a_line_and_says_whether_anybody_reports(tmp_path: Path) -> None:
    board, title = made("defaults")["fleet"], TIMELINE
    ((healthy,),) = ask(board, title, [verdict("fine", "healthy", lasts=7200)], tmp_path / "healthy")
    assert dict(healthy.labels)["slurm_job_id"] == "no job was hurt" and set(healthy.values.tolist()) == {0}
    other = [moment("up", 1, job="node")]
    ((nobody,),) = ask(board, title, other, tmp_path / "nobody")
    assert dict(nobody.labels)["slurm_job_id"] == "no job reports" and shown("no data") in nobody.values
    ((unknown,), _) = ask(made("defaults")["job"], "State and cause", other, tmp_path / "job")
    assert set(unknown.values.tolist()) == {shown("no data")}


def test_a_fleet_that_nobody_can_judge_is_not_called_healthy(tmp_path: Path) -> None:
    board, unknown, fine = made("defaults")["fleet"], verdict("new", "unknown"), verdict("fine", "healthy")
    for name, data, words, state in (
        ("healthy", [fine], "No job is hurt; jobs that report: 1", "healthy"),
        ("some", [fine, unknown], "No job is hurt; jobs that report: 2; cannot be judged: 1", "healthy"),
        ("none", [unknown], "No job is hurt; jobs that report: 1; cannot be judged: 1", "unknown"),
        ("nobody", [moment("up", 1)], "No data: no job reports, so nobody can say how the fleet is", "no data"),
    ):
        (sentence,) = (one for found in ask(board, "Verdict now", data, tmp_path / name) for one in found)
        assert (dict(sentence.labels)["says"], sentence.values[-1]) == (words, shown(state))
    ((line,),) = ask(board, TIMELINE, [unknown], tmp_path / "timeline")
    assert line.values[-1] == shown("unknown")


def shown(word: str) -> int:
    """The value that a state timeline draws as a word."""
    return next(value for value, (text, _) in STATES.items() if text.replace("<fabric>", "NVLink") == word)


def test_the_timeline_of_a_job_has_a_line_for_each_suspect_beside_that_of_the_job(tmp_path: Path) -> None:
    data = [
        verdict("7", "healthy", ago=3000),
        verdict("7", "degraded", 0.3, ago=2400, about=NETWORK),
        verdict("7", "degraded", 0.2, ago=600, about=LATE),
        verdict("8", "stalled", 1),
    ]
    whole, suspects = ask(made("defaults")["job"], "State and cause", data, tmp_path)
    assert [set(one.values.tolist()) for one in whole] == [{shown("healthy"), shown("network"), shown("late")}]
    assert {dict(one.labels)["suspect"]: set(one.values.tolist()) for one in suspects} == {
        "network": {shown("network")},
        "straggler": {shown("late")},
    }


def test_states_are_shown_by_their_own_word_and_colour() -> None:
    found = 0
    for site in SITES:
        for board in made(site).values():
            for panel in drawn(board):
                if panel["type"] == "state-timeline":
                    found += 1
                    # grafana/grafana#71804: thresholds would take the place of the states.
                    assert panel["fieldConfig"]["defaults"]["color"]["mode"] == "fixed", panel["title"]
                    assert panel["options"]["mergeValues"] is False
    assert found >= 2 * len(SITES)


COUNTS = {
    "Jobs reporting": 4,
    "Degraded": 1,
    "Stalled": 0,
    "Recovering": 0,
    "Gone": 1,
    "Unknown": 1,
    "Alerts firing": 0,
}


@pytest.mark.parametrize("title", [*COUNTS, "GPUs of hurt jobs"])
def test_a_fleet_without_telemetry_is_not_a_healthy_one(title: str, tmp_path: Path) -> None:
    data = [
        verdict("a", "degraded", 0.2, about=NETWORK),
        verdict("b", "healthy"),
        verdict("c", "gone", 1),
        verdict("d", "unknown"),
        moment("job:nccl_gpus:count", 8, slurm_job_id="a"),
    ]
    ((known,),) = ask(made("defaults")["fleet"], title, data, tmp_path / "known")
    assert known.values[-1] == (COUNTS | {"GPUs of hurt jobs": 8})[title]
    other = [moment("up", 1, job="node")]
    assert ask(made("defaults")["fleet"], title, other, tmp_path / "nothing") == [[]]


@on_every_board
def test_no_number_takes_silence_for_zero_and_what_nobody_knows_is_grey(site: str, slug: str) -> None:
    for panel in drawn(made(site)[slug]):
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        if panel["type"] == "stat":
            assert not any("vector(0)" in target["expr"] for target in panel["targets"]), panel["title"]
            assert re.match("no data|No data|none$", panel["fieldConfig"]["defaults"]["noValue"])
            # That nobody reports is a warning; whatever is counted of them is grey then.
            alone = {"Jobs reporting": "warn"}.get(panel["title"])
            grey = (grafana.PALETTE["neutral"], grafana.PALETTE["info"])
            assert steps[0]["color"] in ((grafana.PALETTE[alone],) if alone else grey), panel["title"]


RECORDED = re.compile(r"\b(?:job|gpu|node|peer):[a-z0-9_]+:[a-z]+")
# What the verdict is made of, and what tells how old or how much of it there is.
EVIDENCE = {
    *("job:nccl_verdict:depth", "job:nccl_verdict:since", "job:nccl_suspect:depth", "job:nccl_suspect:score"),
    *("peer:nccl_busbw_drop:ratio", "job:nccl_transport:info"),
    *("gpu:nccl_lateness:ratio", "gpu:nccl_lateness_excess:ratio"),
    *("peer:nccl_evidence:usual", "peer:nccl_evidence:spread"),
    *("job:training_throughput:current", "job:training_throughput_loss:ratio"),
    *("job:nccl_quiet:seconds", "job:nccl_pause:seconds", "job:nccl_dump_age:seconds"),
    *("job:nccl_gpus:count", "node:nccl_gpus:count"),
}


@pytest.mark.parametrize("slug", ["fleet", "job", "outliers"])
def test_what_is_shown_first_of_a_board_is_the_verdict_and_the_evidence_that_it_used(slug: str) -> None:
    board = made("defaults")[slug]
    first = []
    for panel in board["panels"][1:]:
        if panel["type"] == "row":
            break
        first.append(panel)
    read = {name for panel in first for target in panel["targets"] for name in RECORDED.findall(target["expr"])}
    assert VERDICT in read
    assert read <= EVIDENCE


def test_the_usual_line_of_a_job_is_the_same_everywhere_and_leaves_degradation_out(tmp_path: Path) -> None:
    series = {"slurm_job_id": "7", "transport": "mixed", "collective": "AllReduce", "size_class": "large"}
    data = [
        Series(
            "job:nccl_busbw:max",
            tuple(sorted(series.items())),
            np.arange(NOW - 10_800, NOW + 1, 30.0),
            np.where(np.arange(361) < 100, 100.0, 50.0),
        ),
        verdict("7", "degraded", 0.5, lasts=7800, about=NETWORK),
        moment("job:nccl_dump_age:seconds", 15, lasts=10_800, slurm_job_id="7"),
    ]
    title = "Bandwidth across domains, several ranks per node (mixed)"
    current, usual, _ = ask(made("defaults")["job"], title, data, tmp_path)
    assert set(current[0].values.tolist()) == {50.0, 100.0}
    assert set(usual[0].values.tolist()) == {100.0}


def test_two_pods_of_a_job_on_one_machine_share_its_ports(tmp_path: Path) -> None:
    instance = {"slurm_job_id": "7", "instance": "host1:9100"}
    data = [moment("node:nccl_gpus:count", 4, node=node, **instance) for node in ("pod-a", "pod-b")]
    data.append(moment(upstream("ib_transmitted"), 3, instance="host1:9100", device="mlx5_0", port="1"))
    found = ask(made("everything")["fabric"], "Traffic by port", data, tmp_path, chosen={"target": ".*"})
    assert [dict(one.labels)["device"] for one in found[0]] == ["mlx5_0"]


@pytest.mark.parametrize(("gpu", "others"), [("GPU5", 63), ("", 56)])
def test_for_a_late_gpu_all_others_wait_and_for_a_late_node_all_other_nodes(
    gpu: str, others: int, tmp_path: Path
) -> None:
    about = {"suspect": "straggler", "node": "n3", **({"gpu": gpu} if gpu else {})}
    data = [
        verdict("7", "degraded", 0.3, about=about),
        moment("job:nccl_verdict:since", NOW - 240, slurm_job_id="7"),
        moment("job:nccl_gpus:count", 64, slurm_job_id="7"),
        *(
            moment("node:nccl_gpus:count", 8, slurm_job_id="7", node=f"n{number}", instance=f"n{number}:9100")
            for number in range(8)
        ),
    ]
    ((said,), *_) = ask(made("everything")["job"], "Verdict now", data, tmp_path)
    assert f", {others} others wait" in dict(said.labels)["says"]


def test_a_healthy_job_about_which_alerts_fire_says_so(tmp_path: Path) -> None:
    firing = {"alertname": "NcclNodeTelemetryLost", "alertstate": "firing", "slurm_job_id": "7"}
    alerts = [moment("ALERTS", 1, severity=severity, **firing) for severity in ("warning", "info")]
    data = [verdict("7", "healthy"), *alerts]
    ((said,), _) = ask(made("defaults")["job"], "Verdict now", data, tmp_path)
    assert dict(said.labels)["says"] == "Healthy: nobody is slower than usual; but alerts fire: 1"


def test_slurm_tells_user_partition_and_state_of_the_job(tmp_path: Path) -> None:
    row = {"job_id": "7", "user_name": "ada", "slurm_partition": "h100", "job_state": "RUNNING", "node": "n1"}
    data = [moment(upstream("job_info"), 1, **row), moment(upstream("job_info"), 1, **{**row, "job_id": "8"})]
    ((found,),) = ask(made("everything")["job"], "Slurm", data, tmp_path)
    table = next(each for each in drawn(made("everything")["job"]) if each["title"] == "Slurm")
    columns = table["transformations"][0]["options"]["include"]["names"]
    assert {name: dict(found.labels)[name] for name in columns} == {
        "user_name": "ada",
        "slurm_partition": "h100",
        "job_state": "RUNNING",
    }


def test_the_stage_between_a_long_send_and_a_long_receive_is_seen_node_by_node(tmp_path: Path) -> None:
    name = upstream("p2p_exec")
    data = [
        moment(name, value, slurm_job_id="7", node=node, gpu=f"GPU{gpu}", p2p_operation=operation, message_size="1-2MB")
        for node, operation, value in (("a", "Send", 900), ("b", "Send", 100), ("b", "Recv", 90), ("c", "Recv", 950))
        for gpu in range(3)
    ]
    receives, sends = ask(made("everything")["p2p"], "Pipeline stages, now", data, tmp_path)
    assert {dict(one.labels)["node"]: one.values[-1] for one in receives} == {"b": 90, "c": 950}
    assert {dict(one.labels)["node"]: one.values[-1] for one in sends} == {"a": 900, "b": 100}
