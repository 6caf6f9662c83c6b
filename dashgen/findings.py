# SPDX-License-Identifier: Apache-2.0
"""Findings as values, and the forms in which people and programs want them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import quote

from dashgen.guard.text import in_json, line, visible

_LONGEST = 1000  # characters of a finding, which may name many things


@dataclass(frozen=True)
class Finding:
    """One fault: the rule that found it, the place, the remedy. Whoever read a file fills in ``file``."""

    rule: str
    where: str
    message: str
    file: str = ""


Format = Literal["text", "json", "sarif", "github"]


def render(findings: Sequence[Finding], form: Format = "text", rules: Mapping[str, str] | None = None) -> str:
    """Findings for a person, a program, code scanning or the annotations of a GitHub pull request.

    ``rules`` says what each rule stands for, in the one form that has a place for it.
    """
    return _FORMS[form](findings, rules or {})


def _text(findings: Sequence[Finding], rules: Mapping[str, str]) -> str:
    lines = (f"{each.file + ': ' if each.file else ''}{each.where}: {each.message} [{each.rule}]" for each in findings)
    return "".join(f"{line(each, _LONGEST)}\n" for each in lines)


def _json(findings: Sequence[Finding], rules: Mapping[str, str]) -> str:
    return in_json(json.dumps([asdict(each) for each in findings], indent=2, ensure_ascii=False)) + "\n"


def _sarif(findings: Sequence[Finding], rules: Mapping[str, str]) -> str:
    """SARIF 2.1.0, as GitHub and GitLab code scanning read it."""
    known = [{"id": name, "shortDescription": {"text": text}} for name, text in rules.items()]
    results = [
        {
            "ruleId": each.rule,
            "level": "warning",
            "message": {"text": f"{each.where}: {each.message}"},
            "locations": [_location(each)],
        }
        for each in findings
    ]
    run = {"tool": {"driver": {"name": "dashgen", "rules": known}}, "results": results}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return in_json(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


def _location(finding: Finding) -> dict[str, object]:
    logical: dict[str, object] = {"logicalLocations": [{"fullyQualifiedName": finding.where}]}
    if not finding.file:
        return logical
    return {
        **logical,
        "physicalLocation": {
            "artifactLocation": {"uri": quote(os.fsencode(finding.file), safe="/,")},
            "region": {"startLine": 1},
        },
    }


def _github(findings: Sequence[Finding], rules: Mapping[str, str]) -> str:
    """Workflow commands; no text from outside can end one and begin another."""
    return "".join(
        f"::warning {f'file={_escaped(visible(each.file), True)},' if each.file else ''}title={each.rule}"
        f"::{_escaped(line(f'{each.where}: {each.message}', _LONGEST))}\n"
        for each in findings
    )


def _escaped(text: str, is_property: bool = False) -> str:
    pairs = [("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *([(":", "%3A"), (",", "%2C")] if is_property else [])]
    for plain, escape in pairs:
        text = text.replace(plain, escape)
    return text


_FORMS: Mapping[Format, Callable[[Sequence[Finding], Mapping[str, str]], str]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}
