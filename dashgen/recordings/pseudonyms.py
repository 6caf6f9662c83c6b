# SPDX-License-Identifier: Apache-2.0
"""Names that may be published: a job, host or GPU always becomes the same pseudonym, in whatever label it stands.

Everything is renamed except what is known to be harmless (KEPT): a label that nobody thought of does not leak.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from dashgen.config.site import Site
from dashgen.recordings.format import Labels, Series
from dashgen.recordings.importing import TEXTFILE_DIRECTORY
from dashgen.recordings.inspector import FILE_PREFIX, UNKNOWN

HOST_LABELS = frozenset({"node", "instance", "Hostname", "hostname", "host", "nodename", "exported_node", "target"})
JOB_LABELS = frozenset({"slurm_job_id", "slurm_job", "job_id", "jobid", "hpc_job", "exported_job"})
GPU_LABELS = frozenset({"UUID", "uuid", "gpu_uuid"})
KEPT = frozenset(
    {
        *("version", "gpu", "n_nodes", "nranks", "collective", "p2p_operation", "message_size", "algo_proto"),
        *("rank", "gpu_device_id", "device", "port", "job", "cause", "code", "collector"),
        *("pci_bus_id", "modelName", "model_name", "nvlink", "err_code", "xid", "clock_event"),
        *("GPU_I_ID", "GPU_I_PROFILE", "DCGM_FI_DRIVER_VERSION", "DCGM_FI_DEV_BRAND"),
    }
)
"""Labels whose values name no site: shapes, device numbers, error codes, and ``job``, the name of a scrape job."""

_POSITION = re.compile(r"(?:GPU)?\d{1,3}")
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ADDRESS = re.compile(r"[0-9.]+|\[?[0-9a-fA-F]*:[0-9a-fA-F:.]+\]?")
_HOST_PORT = re.compile(r"(?P<scheme>[a-z]+://)?(?P<host>\[[^\]]*\]|[^:/]*)(?P<port>:\d+)?(?P<path>/.*)?")


class Pseudonyms:
    """Gives out pseudonyms for the names of a site, numbered in the order of asking."""

    def __init__(self, site: Site) -> None:
        self._renamed = self._by_label(site)
        self._given: dict[tuple[str, str], str] = {}
        self._count: Counter[str] = Counter()

    def _by_label(self, site: Site) -> dict[str, Callable[[str], str]]:
        """What becomes of the values of labels; a later line counts more, and most what the site says of its own."""
        own, dcgm, slurm = site.labels, site.companions.dcgm, site.companions.slurm
        return {
            own.gpu: self.gpu,
            **dict.fromkeys(KEPT, str),
            **dict.fromkeys(JOB_LABELS, self.job),
            **dict.fromkeys(HOST_LABELS, self.host),
            **dict.fromkeys(GPU_LABELS, self.uuid),
            "file": self.file,
            # Rules compare a state with the words of Slurm.
            **({slurm.state_label: str} if slurm.enabled else {}),
            dcgm.uuid_label: self.uuid,
            **dict.fromkeys((own.node, own.instance, dcgm.host_label), self.host),
            **dict.fromkeys((own.job, slurm.job_id_label, site.companions.throughput.job_label or own.job), self.job),
        }

    def _numbered(self, kind: str, name: str) -> str:
        known = self._given.get((kind, name))
        if known is None:
            self._count[kind] += 1
            known = self._given[kind, name] = f"{kind}-{self._count[kind]:03d}"
        return known

    def job(self, name: str) -> str:
        """The pseudonym of a job id; "unknown" stays."""
        return name if name == UNKNOWN else self._numbered("job", name)

    def host(self, name: str) -> str:
        """The pseudonym of a host name, an address, or either with a port; a domain gets one of its own."""
        match = _HOST_PORT.fullmatch(name)
        if match is None or name == UNKNOWN or not match["host"]:
            return name if name in (UNKNOWN, "") else self._numbered("node", name)
        host, dot, domain = match["host"].partition(".")
        if _ADDRESS.fullmatch(match["host"]) or match["host"].startswith("["):
            host, dot, domain = match["host"], "", ""
        named = self._numbered("node", host) + (f".{self._numbered('domain', domain)}" if dot else "")
        path = self._numbered("/path", match["path"]) if match["path"] not in (None, "/", "/metrics") else match["path"]
        return f"{match['scheme'] or ''}{named}{match['port'] or ''}{path or ''}"

    def gpu(self, name: str) -> str:
        """The pseudonym of a GPU within its node: its number stays, by which rules know the first one."""
        return name if name == UNKNOWN or _POSITION.fullmatch(name) else self._numbered("position", name)

    def uuid(self, name: str) -> str:
        """The pseudonym of a GPU's UUID, which looks like a UUID and keeps a ``GPU-`` in front."""
        return UUID.sub(self._one_uuid, name) if UUID.search(name) else self._numbered("uuid", name)

    def _one_uuid(self, match: re.Match[str]) -> str:
        number = int(self._numbered("gpu", match[0].lower()).rpartition("-")[2])
        return f"00000000-0000-4000-8000-{number:012d}"

    def file(self, path: str) -> str:
        """The pseudonym of a textfile's path: one folder for all, the GPU's UUID as everywhere else."""
        folder, _, name = path.rpartition("/")
        number = int(self._numbered("folder", folder).rpartition("-")[2])
        place = TEXTFILE_DIRECTORY + (f"-{number}" if number > 1 else "")
        if name == f"{FILE_PREFIX}{name[len(FILE_PREFIX) : -len('.prom')]}.prom" and UUID.search(name):
            return f"{place}/{FILE_PREFIX}{self.uuid(name[len(FILE_PREFIX) : -len('.prom')])}.prom"
        return f"{place}/{self._numbered('file', name)}.prom"

    def label(self, name: str, value: str) -> str:
        """The pseudonym of a label's value."""
        if not value:
            return value
        if name in self._renamed:
            return self._renamed[name](value)
        return value if value == UNKNOWN else self._numbered("comm" if name == "comm_name" else name, value)

    def labels(self, labels: Labels) -> Labels:
        """All labels of a series, renamed."""
        return tuple((name, self.label(name, value)) for name, value in labels)

    def series(self, series: Iterable[Series]) -> list[Series]:
        """Series with renamed labels, in their new order; equal series give equal pseudonyms."""
        series = list(series)
        for name, value in sorted({pair for one in series for pair in one.labels}):
            self.label(name, value)
        renamed = [Series(one.name, self.labels(one.labels), one.times, one.values) for one in series]
        return sorted(renamed, key=lambda one: (one.name, one.labels))
