"""Named profiles: what a platform team says once about a kind of pod, and what a resource says on top of it. No I/O."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from forebay_operator.resource import Spec
from forebay_operator.resource.pods import Gpu, Toleration
from forebay_operator.resource.schema import LabelValue, ObjectName, Part, Quantity


class Profile(Part):
    """Fields of spec.resources and spec.podTemplate that a profile may give."""

    requests: dict[str, Quantity] = Field(default={})
    limits: dict[str, Quantity] = Field(default={})
    gpu: Gpu | None = None
    node_selector: dict[str, LabelValue] = Field(default={})
    tolerations: list[Toleration] = Field(default=[])
    priority_class_name: ObjectName | None = None
    runtime_class_name: ObjectName | None = None


class ProfilesError(Exception):
    """The operator's profiles are not understood; the message says which and why."""


def parse(text: str) -> dict[str, Profile]:
    """Profiles by name, from YAML."""
    try:
        return TypeAdapter(dict[ObjectName, Profile]).validate_python(yaml.safe_load(text) or {})
    except (yaml.YAMLError, ValidationError) as e:
        raise ProfilesError(f"profiles: {e}") from e


def read(path: pathlib.Path) -> dict[str, Profile]:
    try:
        return parse(path.read_text())
    except OSError as e:
        raise ProfilesError(f"profiles: {e}") from e


def applied(spec: Spec, profiles: Mapping[str, Profile]) -> Spec:
    """The spec with its profile's fields where it says nothing itself, GPUs as requests. KeyError: no such profile."""
    profile = profiles[spec.resources.profile] if spec.resources.profile else Profile()
    gpu = spec.resources.gpu or profile.gpu
    held = {gpu.resource: str(gpu.count)} if gpu else {}
    product = {"nvidia.com/gpu.product": gpu.product} if gpu and gpu.product else {}
    resources = {
        "requests": profile.requests | spec.resources.requests | held,
        "limits": profile.limits | spec.resources.limits | held,
        "gpu": gpu,
    }
    more = spec.pod_template
    template = {
        "node_selector": profile.node_selector | product | more.node_selector,
        "tolerations": [*profile.tolerations, *(t for t in more.tolerations if t not in profile.tolerations)],
        "priority_class_name": more.priority_class_name or profile.priority_class_name,
        "runtime_class_name": more.runtime_class_name or profile.runtime_class_name,
    }
    update: dict[str, Any] = {
        "resources": spec.resources.model_copy(update=resources),
        "pod_template": more.model_copy(update=template),
    }
    return spec.model_copy(update=update)
