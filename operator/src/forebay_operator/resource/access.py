"""spec.access: who may reach the pods beside Forebay itself."""

from __future__ import annotations

from pydantic import Field

from forebay_operator.resource.schema import LabelValue, Part, atomic_list


class Peer(Part):
    namespaces: dict[str, LabelValue] | None = Field(
        default=None,
        max_length=16,
        description="Labels of their namespaces, {} for all of them; the resource's own namespace when left out.",
    )
    pods: dict[str, LabelValue] = Field(default={}, max_length=16, description="Labels of the pods; all when left out.")


class Access(Part):
    peers: list[Peer] | None = Field(
        default=None,
        alias="from",
        max_length=32,
        description="Pods that may reach this resource's pods, beside Forebay's own; an empty list for none; every pod "
        "of the cluster when left out.",
        json_schema_extra=atomic_list(),
    )
