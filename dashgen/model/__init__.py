# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the project: frozen values that are checked when they are made.

A **Metric** is a series that somebody else exposes. A **Signal** is a question that an operator asks, answered by one
recorded series; panels, alerts, runbooks and documentation take the question, the unit and the name from it. PromQL
is literal, with placeholders in angle brackets (``<job>``, ``<3 dumps>``) that dashgen.build fills in for a site.
"""

from dashgen.model.alerts import Alert, Runbook, Scope, Tier
from dashgen.model.boards import Annotation, Dashboard, Panel, PanelType, Query, Row, Variable
from dashgen.model.built import AlertRule, Bundle, RecordingRule, RuleGroup
from dashgen.model.series import Metric, Signal, SignalKind
from dashgen.model.words import TRANSPORTS, Sensitivity, Severity, Transport, Unit, indented, labelled

__all__ = [
    "TRANSPORTS",
    "Alert",
    "AlertRule",
    "Annotation",
    "Bundle",
    "Dashboard",
    "Metric",
    "Panel",
    "PanelType",
    "Query",
    "RecordingRule",
    "Row",
    "RuleGroup",
    "Runbook",
    "Scope",
    "Sensitivity",
    "Severity",
    "Signal",
    "SignalKind",
    "Tier",
    "Transport",
    "Unit",
    "Variable",
    "indented",
    "labelled",
]
