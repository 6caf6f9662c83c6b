# SPDX-License-Identifier: Apache-2.0
"""Inspector's files, as node_exporter's textfile collector reads them, and what node_exporter says of itself."""

from __future__ import annotations

import numpy as np

from dashgen.catalogue.metrics import upstream
from dashgen.recordings.importing import textfile_name
from dashgen.recordings.inspector import (
    BUS_BANDWIDTH,
    COLLECTIVES_TOTAL,
    DROPPED_TOTAL,
    EXEC_TIME,
    FORMAT_VERSION,
    P2P_BUS_BANDWIDTH,
    P2P_EXEC_TIME,
)
from dashgen.simulator.communicators import Floats
from dashgen.simulator.dumps import Run
from dashgen.simulator.scrapes.site import Bools, Sheet, Site, node_labels

DIRECTORY = "/var/lib/node_exporter/textfile"


def six_digits(values: Floats) -> Floats:
    """Values as a C++ stream prints them: six significant digits."""
    safe = np.where(values == 0, 1.0, np.abs(values))
    digits = 5 - np.floor(np.log10(safe))
    up, down = 10.0 ** np.maximum(digits, 0), 10.0 ** np.maximum(-digits, 0)
    return np.asarray(np.rint(values * up / down) * down / up)


def _places(run: Run) -> list[tuple[int, int, int]]:
    """Each GPU of a job with its node's number and its place there."""
    size = run.job.gpus_per_node
    return [(gpu, run.job.first_node - 1 + gpu // size, gpu % size) for gpu in range(run.job.nodes * size)]


def inspector(site: Site, run: Run, sheet: Sheet, held: Bools, duplicates: Bools) -> None:
    """The files of one job. Files of jobs that came later are in ``held``: a GPU has one file, the last writer's."""
    values = [(six_digits(each.busbw), six_digits(each.exec_us)) for each in run.buckets]
    places = _places(run)
    if run.job.one_visible_gpu:
        # node_exporter reads files in the order of their names, and of equal series keeps the first.
        places.sort(key=lambda place: (place[1], site.uuids[place[1]][place[2]]))
    for gpu, node, local in places:
        written = np.flatnonzero(run.written[:, gpu])
        if not len(written):
            continue
        newest = np.searchsorted(run.dumps[written, gpu], site.offsets, side="right") - 1
        content = written[np.maximum(newest, 0)]
        there = (newest >= 0) & (site.offsets < run.unlinked[gpu]) & ~held[node, local]
        held[node, local] |= newest >= 0
        stat = there & site.answers[node] & ~site.broken[node, local]
        file = f"{DIRECTORY}/{textfile_name(site.uuids[node][local])}"
        mtime = np.floor(site.scenario.start.timestamp() + run.dumps[content, gpu])
        if site.scenario.companions.mtime:
            sheet.put(upstream("mtime"), {**node_labels(site, node), "file": file}, mtime, stat)
        labels = {
            **node_labels(site, node),
            "version": FORMAT_VERSION,
            "slurm_job_id": run.job.id,
            "node": site.scenario.nodes[node],
            "gpu": "GPU0" if run.job.one_visible_gpu else f"GPU{local}",
        }
        if site.scenario.flavour == "rccl":
            labels["cluster"] = site.scenario.cluster
        shown = stat & ~site.emptied[node, local]
        for bucket, (busbw, exec_us) in zip(run.buckets, values, strict=True):
            if bucket.p2p and dict(bucket.labels)["n_nodes"] != "1" and not site.scenario.companions.p2p_across:
                continue
            seen = shown & (bucket.count[content, gpu] > 0)
            names = (P2P_BUS_BANDWIDTH, P2P_EXEC_TIME) if bucket.p2p else (BUS_BANDWIDTH, EXEC_TIME)
            if seen.any():
                mine = {**labels, **dict(bucket.labels)}
                duplicates[node] |= sheet.put(names[0], mine, busbw[content, gpu], seen)
                sheet.put(names[1], mine, exec_us[content, gpu], seen)
        if site.scenario.companions.counters:
            sheet.put(COLLECTIVES_TOTAL, labels, run.total[content, gpu].astype(float), shown)
            sheet.put(DROPPED_TOTAL, labels, run.dropped[content, gpu].astype(float), shown)


def exporter(site: Site, sheet: Sheet, held: Bools, duplicates: Bools) -> None:
    """node_exporter's own word on its textfiles (prometheus/node_exporter collector/textfile.go)."""
    for node in range(len(site.scenario.nodes)):
        labels, answers = node_labels(site, node), site.answers[node]
        always = np.ones(sheet.scrapes, bool)
        sheet.put("up", labels, answers.astype(float), always)
        failed = (held[node] & site.broken[node]).any(axis=0)
        sheet.put(upstream("textfile_error"), labels, failed.astype(float), answers)
        # An error is counted after the response that it concerns was written.
        errors = np.concatenate([[0.0], np.cumsum(duplicates[node] & answers)[:-1]])
        cause = {**labels, "cause": "gathering"}
        sheet.put(upstream("gathering_errors"), cause, errors, answers)
