# SPDX-License-Identifier: Apache-2.0
"""The catalogue and a Site go in, a Bundle comes out: everything that a site gets, before a target gives it a form."""

from dashgen.build.alert_rules import alert_links, alert_rule, alerts, symbolic
from dashgen.build.assemble import bundle, exposed, plain
from dashgen.build.board_views import dashboards, panel_needs
from dashgen.build.placeholders import evaluated_every, fill
from dashgen.build.recording_rules import recording, signal_expr, signals
from dashgen.build.routing import alertmanager

__all__ = [
    "alert_links",
    "alert_rule",
    "alertmanager",
    "alerts",
    "bundle",
    "dashboards",
    "evaluated_every",
    "exposed",
    "fill",
    "panel_needs",
    "plain",
    "recording",
    "signal_expr",
    "signals",
    "symbolic",
]
