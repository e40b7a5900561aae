"""spec.resources and spec.podTemplate: what each pod holds, and where it goes."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from forebay_operator.quantity import whole
from forebay_operator.resource.schema import (
    Bytes,
    LabelValue,
    ObjectName,
    Part,
    Quantity,
    atomic_list,
    checked,
    list_by,
    rule,
)


class Gpu(Part):
    count: int = Field(default=1, ge=1, le=64, description="How many each pod holds.")
    product: LabelValue | None = Field(
        default=None,
        description="The GPU that a node must have, as in its label nvidia.com/gpu.product, such as NVIDIA-L40S.",
    )
    mig: str | None = Field(
        default=None,
        max_length=32,
        pattern=r"^[0-9]+g\.[0-9]+gb(\.me)?$",
        description="A MIG profile, such as 1g.10gb, in place of whole GPUs.",
    )

    memory: Bytes | None = Field(
        default=None,
        description="Memory of each, such as 80Gi, for telling whether the model fits; known by itself of a MIG "
        "profile and of a product whose name tells it.",
    )

    @property
    def memory_bytes(self) -> int | None:
        """Of each, where it is known."""
        if self.memory:
            return whole(self.memory)
        told = re.search(r"([0-9]+)gb", self.mig or self.product or "", re.IGNORECASE)
        return int(told[1]) << 30 if told else None

    @property
    def resource(self) -> str:
        return f"nvidia.com/mig-{self.mig}" if self.mig else "nvidia.com/gpu"


class Resources(Part):
    profile: ObjectName | None = Field(
        default=None,
        description="A named profile that the operator was given (values.yaml, profiles): what is said here and in "
        "podTemplate comes on top of it.",
    )
    gpu: Gpu | None = Field(default=None, description="NVIDIA GPUs of each pod, in place of nvidia.com/ in limits.")
    requests: dict[str, Quantity] = Field(
        default={},
        max_length=16,
        description="What the scheduler sets aside for each pod, as in a pod: cpu, memory, nvidia.com/gpu.",
    )
    limits: dict[str, Quantity] = Field(
        default={},
        max_length=16,
        description="What each pod may use at most, as in a pod: cpu, memory, nvidia.com/gpu.",
    )


class Toleration(Part):
    key: Annotated[str, StringConstraints(max_length=316)] | None = Field(
        default=None, description="The taint's key; every taint when left out with operator Exists."
    )
    operator: Literal["Exists", "Equal"] | None = Field(
        default=None, description="Whether the taint's value must be equal or only its key exist."
    )
    value: LabelValue | None = Field(default=None, description="The taint's value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="The taint's effect; every effect when left out."
    )
    toleration_seconds: int | None = Field(
        default=None, ge=0, description="How long a NoExecute taint is tolerated, in seconds; always when left out."
    )


class PullSecret(Part):
    name: ObjectName = Field(description="Name of a pull secret in the same namespace.")


def _foreign_keys_only() -> dict[str, str]:
    return rule(
        "self.all(k, !k.startsWith('forebay.dev/') && !k.startsWith('app.kubernetes.io/'))",
        "keys under forebay.dev/ and app.kubernetes.io/ are the operator's own",
    )


class PodTemplate(Part):
    labels: dict[str, LabelValue] = Field(
        default={},
        max_length=32,
        description="Further labels of the pods.",
        json_schema_extra=checked(_foreign_keys_only()),
    )
    annotations: dict[str, Annotated[str, StringConstraints(max_length=16384)]] = Field(
        default={},
        max_length=32,
        description="Annotations of the pods.",
        json_schema_extra=checked(_foreign_keys_only()),
    )
    node_selector: dict[str, LabelValue] = Field(
        default={}, max_length=32, description="Labels that a node must have for the pods to go there."
    )
    tolerations: list[Toleration] = Field(
        default=[], max_length=32, description="Taints that the pods bear.", json_schema_extra=atomic_list()
    )
    priority_class_name: ObjectName | None = Field(default=None, description="The pods' PriorityClass.")
    runtime_class_name: ObjectName | None = Field(default=None, description="The pods' RuntimeClass, such as nvidia.")
    service_account_name: ObjectName | None = Field(
        default=None, description="The pods' ServiceAccount; its token is not mounted."
    )
    image_pull_secrets: list[PullSecret] = Field(
        default=[], max_length=16, description="Pull secrets for the pods' images.", json_schema_extra=list_by("name")
    )
    termination_grace_period_seconds: int = Field(
        default=600,
        ge=20,
        le=86400,
        description="How long a pod that is told to end may go on serving the requests it has, in seconds; the first "
        "10 pass until every proxy knows.",
    )
