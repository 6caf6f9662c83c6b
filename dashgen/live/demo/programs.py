# SPDX-License-Identifier: Apache-2.0
"""The programs of the stack, and how each is started: on the loopback interface, its data in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dashgen import durations
from dashgen.config.site import Site
from dashgen.engine.programs import find
from dashgen.engine.services import Service
from dashgen.model import Bundle
from dashgen.targets import files
from dashgen.targets.rulefile import to_yaml

TOOLS = ("prometheus", "promtool", "alertmanager", "node_exporter")

RESEND = 20.0
"""Seconds after which Prometheus repeats a firing alert; four times as long Alertmanager believes it without."""

LOOKBACK = 300.0
"""Seconds of the story for which a sample counts, as by default in Prometheus."""


def check() -> None:
    """Raise UserError, with the remedy, for the first program that is not there."""
    for name in TOOLS:
        find(name)


def servers(folder: Path, ports: Mapping[str, int], speed: float) -> dict[str, Service]:
    """Prometheus and Alertmanager, by name, with their configuration and their data in ``folder``."""
    listening = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    commands: dict[str, list[str | Path]] = {
        "prometheus": [
            find("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={listening['prometheus']}",
            f"--rules.alert.resend-delay={RESEND:g}s",
            f"--query.lookback-delta={durations.text(LOOKBACK / speed)}",
            "--log.level=warn",
        ],
        "alertmanager": [
            find("alertmanager"),
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address={listening['alertmanager']}",
            # Alone; otherwise it would listen on every interface.
            "--cluster.listen-address=",
            "--log.level=warn",
        ],
    }
    return {
        name: Service(name, command, f"http://{listening[name]}/-/ready", folder / f"{name}.log")
        for name, command in commands.items()
    }


def node_exporter(folder: Path, node: str, port: int) -> Service:
    """The exporter of an emulated node, which has nothing but its textfiles."""
    command = [
        find("node_exporter"),
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={folder / 'textfiles' / node}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    return Service(f"node_exporter of {node}", command, f"http://127.0.0.1:{port}/", folder / f"{node}.log")


_HOME = Path("/usr/share/grafana")


def grafana(folder: Path, port: int) -> Service:
    """Grafana on the loopback interface, with all that it keeps below ``folder``."""
    path = find("grafana")
    beside = Path(path).resolve().parent.parent
    home = beside if (beside / "conf" / "defaults.ini").exists() else _HOME
    settings = {
        "SERVER_HTTP_ADDR": "127.0.0.1",
        "SERVER_HTTP_PORT": str(port),
        "PATHS_DATA": str(folder / "data"),
        "PATHS_LOGS": str(folder / "logs"),
        "PATHS_PLUGINS": str(folder / "plugins"),
        "PATHS_PROVISIONING": str(folder / "provisioning"),
        "AUTH_ANONYMOUS_ENABLED": "true",
        "AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "ANALYTICS_REPORTING_ENABLED": "false",
        "ANALYTICS_CHECK_FOR_UPDATES": "false",
        "ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "PLUGINS_PREINSTALL_DISABLED": "true",
    }
    return Service(
        "grafana",
        [path, "server", "--homepath", home],
        f"http://127.0.0.1:{port}/api/health",
        folder.parent / "grafana.log",
        {f"GF_{name}": value for name, value in settings.items()},
    )


def provision(bundle: Bundle, site: Site, prometheus: str, folder: Path) -> None:
    """Write the generated boards and their provisioning, and the Prometheus at this address as the data source."""
    placed = site.model_copy(update={"grafana": site.grafana.model_copy(update={"path": str(folder / "dashboards")})})
    source = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": prometheus, "isDefault": True}
    written = {
        name: content
        for name, content in files.render(bundle, placed).items()
        if name.startswith("dashboards/") and name.endswith((".json", ".yaml"))
    }
    written["dashboards/provisioning/datasources/demo.yaml"] = to_yaml({"apiVersion": 1, "datasources": [source]})
    for name, content in written.items():
        path = folder / name.replace("dashboards/provisioning/", "provisioning/", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
