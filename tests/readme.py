# SPDX-License-Identifier: Apache-2.0
"""Brings the tables of README.md up to date with the catalogue: ``python tests/readme.py``."""

from __future__ import annotations

from pathlib import Path

from dashgen import catalogue
from dashgen.model import Alert, Sensitivity

README = Path(__file__).parent.parent / "README.md"


def _alert(alert: Alert) -> str:
    cells = []
    for level in Sensitivity:
        tier = alert.tiers.get(level)
        cells.append(f"{tier.severity}: {tier.threshold:g}, {tier.dumps} dumps" if tier else "–")
    question = catalogue.SIGNAL_BY_NAME[alert.signal].question
    # An alert that a site has to ask for has no runbook in the committed packs.
    page = f"rules/runbooks/{alert.name}.md"
    name = f"[`{alert.name}`]({page})" if (README.parent / page).exists() else f"`{alert.name}`"
    return f"| {name} | {question} | {' | '.join(cells)} |"


def tables() -> dict[str, list[str]]:
    """Each table by its marker."""
    alerts = ["| alert | asks | low | medium | high |", "|---|---|---|---|---|", *map(_alert, catalogue.ALERTS)]
    signals = [
        "| series | question |",
        "|---|---|",
        *(f"| `{each.name}` | {each.question} |" for each in catalogue.SIGNALS),
    ]
    return {"alerts": alerts, "signals": signals}


def filled(text: str) -> str:
    """README text with what stands between its markers derived anew."""
    for name, rows in tables().items():
        before, rest = text.split(f"<!-- {name} -->\n")
        text = (
            f"{before}<!-- {name} -->\n" + "\n".join(rows) + f"\n<!-- /{name} -->" + rest.split(f"<!-- /{name} -->")[1]
        )
    return text


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
