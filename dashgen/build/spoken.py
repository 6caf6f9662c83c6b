# SPDX-License-Identifier: Apache-2.0
"""What a tier asks of an alert, in words: numbers with their units, and durations both as time and in dumps."""

from __future__ import annotations

import re

from dashgen.model import Alert, Severity, Tier

ASKS = {Severity.CRITICAL: "page", Severity.WARNING: "ticket", Severity.INFO: "note"}
"""What each severity is called where people read it."""

_VALUE = re.compile(r"<([a-z_]+)( %| dumps)?>")


def span(dumps: float, dump_interval: float) -> str:
    """A time counted in dumps: 4 of 30 s are ``2 min (4 dumps)``, none is ``at once``."""
    if not dumps:
        return "at once"
    return f"{seconds(dumps * dump_interval)} ({dumps:g} {'dump' if dumps == 1 else 'dumps'})"


def seconds(value: float) -> str:
    """A time in at most two units: 90 is ``1 min 30 s``."""
    minutes, rest = divmod(value, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{count:g} {unit}" for count, unit in ((hours, "h"), (minutes, "min"), (rest, "s")) if count]
    return " ".join(parts[:2]) or "0 s"


def limit(alert: Alert, tier: Tier, dump_interval: float) -> str:
    """What the alert fires at in a tier. Raises KeyError for a threshold that the tier does not have."""
    known = {"threshold": tier.threshold, **tier.extra}

    def value(match: re.Match[str]) -> str:
        number = known[match[1]]
        if match[2] == " %":
            return f"{100 * number:g} %"
        return span(number, dump_interval) if match[2] else f"{number:g}"

    return re.sub(r"\bmore than 0 (?!%|a )", "any ", _VALUE.sub(value, alert.limit))


def asked(tier: Tier | None, dump_interval: float) -> str:
    """What happens in a tier, and after how long: ``page after 1 min (2 dumps)``."""
    if tier is None:
        return "–"
    after = f" after {span(tier.dumps, dump_interval)}" if tier.dumps else " at once"
    return ASKS[tier.severity] + after
