# SPDX-License-Identifier: Apache-2.0
"""What ports, interfaces and switches of a job's nodes say, by the limits that NVSentinel publishes.

Counters belong to ports, not to communicators: they are joined to a job by the scrape target that they share with
Inspector's files, and they accuse nobody on their own. Only together with a network that has become slow for the job
does a port turn into a suspect. Where a node works for two jobs, its ports are told to the one with more GPUs there.
"""

from __future__ import annotations

from dashgen.catalogue.signals.fabric import hosts, links, ports, switches

SIGNALS = (*hosts.SIGNALS, *ports.SIGNALS, *links.SIGNALS, *switches.SIGNALS)
ALERTS = (*ports.ALERTS, *links.ALERTS, *hosts.ALERTS, *switches.ALERTS)
