# SPDX-License-Identifier: Apache-2.0
"""Kubernetes objects: their names, what all of them carry, how large they may be, and how they get through Helm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.config.values import MOST_LABELS, Switch
from dashgen.errors import UserError
from dashgen.guard.text import quoted
from dashgen.targets.packs import GENERATED
from dashgen.targets.rulefile import commented, to_yaml

# kubectl apply keeps the whole object in an annotation, and all annotations together may take 256 KiB.
CLIENT_SIDE_BYTES = 262_144
# A ConfigMap's data (kubernetes.io/docs/concepts/configuration/configmap) and, with some room, an object in etcd.
OBJECT_BYTES = 1_048_576

_SERVER_SIDE = "Too large for a client-side apply: use `kubectl apply --server-side`."


KubernetesName = Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?)?$")]


_NAME = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)"
_DOMAIN = r"(?=.{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"


def _key(text: str) -> str:
    if not re.fullmatch(rf"({_DOMAIN}/)?{_NAME}", text):
        raise ValueError(f"{quoted(text)} is no key that Kubernetes takes; write for example team or example.com/team")
    return text


def _value(text: str) -> str:
    if not re.fullmatch(f"{_NAME}?", text):
        raise ValueError(
            f"{quoted(text)} is no value of a label that Kubernetes takes; at most 63 letters, digits, dashes, "
            "underscores and dots, with a letter or digit at both ends"
        )
    return text


Key = Annotated[str, AfterValidator(_key)]
"""Of a label or an annotation (kubernetes.io/docs/concepts/overview/working-with-objects/labels)."""
KubernetesLabels = dict[Key, Annotated[str, AfterValidator(_value)]]

_FLUX = {"kustomize.toolkit.fluxcd.io/substitute": "disabled"}


class KubernetesKeys(Section):
    """What every Kubernetes object carries."""

    namespace: KubernetesName = Field("", description="empty leaves it to kubectl, kustomize or Helm")
    name_prefix: KubernetesName = Field("dashgen", description="names of objects begin with it")
    labels: KubernetesLabels = Field(default_factory=dict, max_length=MOST_LABELS)
    annotations: dict[Key, str] = Field(
        default=_FLUX,
        description="beside others too, the default keeps Flux from filling in ${datasource} itself",
    )
    helm: Switch = Field(False, description="escape {{ for a place among a Helm chart's templates")

    @field_validator("annotations")
    @classmethod
    def _beside_the_default(cls, given: dict[str, str]) -> dict[str, str]:
        return {**_FLUX, **given}


SECTION = {"kubernetes": KubernetesKeys}
"""What every target of Kubernetes objects shares."""


def object_name(site: Site, name: str) -> str:
    """A name that Kubernetes takes (RFC 1123), beginning as the site wants."""
    prefix = site.targets.of(KubernetesKeys).name_prefix
    return re.sub(r"[^a-z0-9]+", "-", f"{prefix}-{name}".lower()).strip("-")[:63].rstrip("-")


def document(
    site: Site,
    kind: tuple[str, str],
    name: str,
    body: Mapping[str, object],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    about: str = "",
) -> str:
    """One object as YAML; ``kind`` is its API version and kind, ``body`` what comes after the metadata.

    Raises UserError when it is larger than Kubernetes stores.
    """
    shared = site.targets.of(KubernetesKeys)
    metadata: dict[str, object] = {"name": object_name(site, name)}
    if shared.namespace:
        metadata["namespace"] = shared.namespace
    for key, own, common in (("labels", labels, shared.labels), ("annotations", annotations, shared.annotations)):
        if merged := {**common, **(own or {})}:
            metadata[key] = merged
    text = to_yaml({"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, **body})
    size = len(text.encode())
    if size > OBJECT_BYTES:
        raise UserError(f"{kind[1]} {name}: {size} bytes are more than Kubernetes stores; remove panels by an overlay")
    notes = "\n".join(line for line in (GENERATED, about, _SERVER_SIDE if size > CLIENT_SIDE_BYTES else "") if line)
    return escaped(commented(notes) + text) if shared.helm else commented(notes) + text


def escaped(text: str) -> str:
    """Text that Helm's templating leaves as it is; only an opening brace pair means something to it."""
    return text.replace("{{", "{{`{{`}}")
