# SPDX-License-Identifier: Apache-2.0
"""The layers of the package: a module knows what lies below it, never what lies above."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import dashgen

ROOT = Path(dashgen.__file__).parent

# From the ground up: what is said, what is known, what is made of it, what is recorded, what runs it, what judges it.
# A name stands for a module or for a whole package below dashgen.
LAYERS = (
    {"errors", "model", "findings", "promql", "durations", "guard"},
    {"catalogue", "config"},
    {"build", "grafana", "lint", "targets", "jsonnet"},
    {"recordings", "simulator", "worlds", "output"},
    {"engine"},
    {"validation", "explain", "preview", "live", "cost"},
    {"cli", "__main__"},
)


@cache
def modules() -> dict[str, Path]:
    """Every module by its name below ``dashgen``, the package itself as the empty name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything that a file says, parsed once for all tests."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports, below ``dashgen.``."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (
                alias.name.removeprefix("dashgen.") for alias in node.names if alias.name.startswith("dashgen.")
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dashgen":
            base = (node.module or "").removeprefix("dashgen").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".removeprefix(".")
                yield full if full in modules() else base


def named(path: Path) -> set[str]:
    """All that a file imports, of any package: modules, and what they hold."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def layer(module: str) -> int:
    top = module.split(".")[0]
    found = [number for number, names in enumerate(LAYERS) if top in names]
    assert found, f"{module}: say in LAYERS where {top} belongs"
    return found[0]


def test_every_module_has_a_layer_and_imports_only_from_its_own_or_a_lower_one() -> None:
    for module, path in modules().items():
        if not module:
            continue
        for imported in imports(path):
            if imported:
                assert layer(imported) <= layer(module), f"{module} imports {imported}"


def test_no_two_modules_import_each_other() -> None:
    graph = {
        module: {name for name in imports(path) if name not in ("", module)}
        for module, path in modules().items()
        if module
    }
    # A package's __init__ collects its modules; a module may then read its package's lower neighbours only.
    TopologicalSorter(graph).prepare()


def test_only_the_command_line_prints() -> None:
    for module, path in modules().items():
        calls = (node.func for node in nodes(path) if isinstance(node, ast.Call))
        assert "print" not in {called.id for called in calls if isinstance(called, ast.Name)}, f"{module} prints"


def test_only_one_client_asks_servers_of_others() -> None:
    for module, path in modules().items():
        if {"urllib.request", "urllib3", "http.client", "socket"} & named(path):
            # The engine asks the programs that it starts itself.
            ours = ("engine.loopback",)
            assert module in ("live.client.http", "live.client.connections", *ours), module


def test_only_the_engine_starts_programs() -> None:
    for module, path in modules().items():
        if "subprocess" in named(path):
            # Overlays are evaluated in a process of dashgen's own, which may do nothing else.
            assert module.startswith("engine.") or module == "jsonnet.sandbox", module


def test_what_is_slow_to_import_waits_for_the_command_that_needs_it() -> None:
    slow = {"grafanalib", "numpy", "plotly", "promql_parser", "pydantic", "re2", "rich", "urllib3", "yaml"}
    loaded = "import sys, dashgen.cli.main; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert "dashgen.cli.main" in told
    assert slow.isdisjoint(told)


MOST_LINES, MOST_OF_A_FUNCTION, MOST_MODULES = 400, 60, 12


def test_a_module_can_be_read_at_one_sitting() -> None:
    assert [name for name, path in modules().items() if len(path.read_text().splitlines()) > MOST_LINES] == []


def test_a_function_fits_on_a_screen() -> None:
    assert [
        f"{module}.{node.name}"
        for module, path in modules().items()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MOST_OF_A_FUNCTION
    ] == []


def test_a_package_has_few_enough_modules_to_choose_from() -> None:
    for package in {path.parent for path in modules().values()}:
        found = [path.stem for path in package.glob("*.py") if path.stem != "__init__"]
        assert len(found) <= MOST_MODULES, f"{package.relative_to(ROOT)}: {len(found)} modules; make a package of some"


def test_every_file_states_its_licence() -> None:
    for path in [*ROOT.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]:
        assert path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n"), path
