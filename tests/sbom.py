# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a release, in CycloneDX: ``python tests/sbom.py > dashgen.cdx.json``.

What it lists, who needs what, and the hashes come from ``.ci/requirements.lock``; licences from the metadata of what
is installed. Scopes: ``required`` is what every installation has, ``optional`` what an extra brings, ``excluded`` what
only tests and the build need.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dashgen

ROOT = Path(__file__).parent.parent
LOCK = ROOT / ".ci" / "requirements.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Classifiers that older metadata has in the place of an SPDX expression (https://spdx.org/licenses/).
_SPDX = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Metadata without a word about it; from the LICENSE in the wheel.
_UNSAID = {"gojsonnet": "Apache-2.0", "promql-parser": "MIT"}


@dataclass
class Locked:
    """One version of a package, where it is meant, the hashes of its files, and the packages that need it."""

    name: str
    version: str
    marker: str = ""
    hashes: list[str] = field(default_factory=list)
    needed_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def locked(text: str) -> list[Locked]:
    """What a lock lists; one package may be there in two versions, for two versions of Python."""
    found: list[Locked] = []
    for line in text.splitlines():
        if start := re.match(r"(?P<name>[\w.-]+)==(?P<version>[\w.!+]+)(?: ; (?P<marker>.*?))?(?: \\)?$", line):
            found.append(Locked(start["name"], start["version"], start["marker"] or ""))
        elif digest := re.search(r"--hash=sha256:([0-9a-f]{64})", line):
            found[-1].hashes.append(digest[1])
        elif (via := re.match(r"    #(?: via)? +(\S.*)", line)) and via[1] != "via":
            found[-1].needed_by.append(via[1])
    return found


def names(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def closure(start: Iterable[str], packages: Iterable[Locked]) -> set[str]:
    """Names of packages, and of all that they need."""
    needs: dict[str, set[str]] = {}
    for package in packages:
        for above in package.needed_by:
            needs.setdefault(above, set()).add(package.name)
    found: set[str] = set()
    todo = list(start)
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            todo += needs.get(name, ())
    return found


def scopes(packages: list[Locked]) -> Iterator[tuple[Locked, str]]:
    """Each package with whom it is for."""
    extras = {name: needs for name, needs in PROJECT["optional-dependencies"].items() if name != "test"}
    always = closure(names(PROJECT["dependencies"]), packages)
    sometimes = closure(names(need for needs in extras.values() for need in needs), packages)
    for package in packages:
        yield package, "required" if package.name in always else "optional" if package.name in sometimes else "excluded"


def licence(name: str) -> str | None:
    """The SPDX expression of an installed package; None where the package is for another platform.

    Raises KeyError for a licence that has no such name here.
    """
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if name in _UNSAID or "License-Expression" in about:
        return _UNSAID.get(name) or str(about["License-Expression"])
    said = [each.split(" :: ")[-1] for each in about.get_all("Classifier", []) if each.startswith("License :: ")]
    if said:
        return " OR ".join(sorted(_SPDX[each] for each in said))
    return str(about["License"])


def sbom() -> dict[str, Any]:
    """The bill of materials as plain data (https://cyclonedx.org/docs/1.6/json/)."""
    packages = locked(LOCK.read_text(encoding="utf-8"))
    product = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{PROJECT['name']}@{dashgen.__version__}",
        "name": PROJECT["name"],
        "version": dashgen.__version__,
        "description": PROJECT["description"],
        "licenses": [{"expression": PROJECT["license"]}],
        "purl": f"pkg:pypi/{PROJECT['name']}@{dashgen.__version__}",
    }
    direct = names(PROJECT["dependencies"])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": product},
        "components": [_component(package, scope) for package, scope in scopes(packages)],
        "dependencies": [
            {"ref": product["purl"], "dependsOn": [each.purl for each in packages if each.name in direct]},
            *(
                {"ref": one.purl, "dependsOn": [each.purl for each in packages if one.name in each.needed_by]}
                for one in packages
            ),
        ],
    }


def _component(package: Locked, scope: str) -> dict[str, Any]:
    expression = licence(package.name)
    marker = [{"name": "dashgen:only-where", "value": package.marker}] if package.marker else []
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "scope": scope,
        # Of each file that there is of it: a wheel for every platform, and the source.
        "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
        **({"licenses": [{"expression": expression}]} if expression else {}),
        "purl": package.purl,
        **({"properties": marker} if marker else {}),
    }


if __name__ == "__main__":
    print(json.dumps(sbom(), indent=2))
