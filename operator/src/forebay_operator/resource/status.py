"""status: what was last seen of the resource."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from forebay_operator.resource.schema import Part, atomic_list, list_by


class ModelStatus(Part):
    name: str = Field(description="The model name by which requests ask for it.")
    source: str = Field(default="", description="The source, its revision and the file that the rest is about.")
    revision: str | None = Field(default=None, description="The revision of the pods that have told it.")
    parameters: int | None = Field(default=None, description="How many the model has.")
    bytes: int | None = Field(default=None, description="Bytes of its weights as they are held in memory.")
    context: int | None = Field(default=None, description="The most tokens of a sequence that are served.")
    quantization: str | None = Field(default=None, description="What the weights were turned into on loading.")
    model_context: int | None = Field(default=None, description="The most tokens that the model allows.")
    kv_bytes_per_token: int | None = Field(default=None, description="Bytes of keys and values of one token.")
    kv_dtype: str | None = Field(default=None, description="The numbers that they are kept in.")
    own_bytes: int | None = Field(default=None, description="Bytes that the engine holds beside weights and KV cache.")


class Memory(Part):
    basis: str = Field(description="Where these numbers come from, or why there are none.", max_length=1024)
    weights: int | None = Field(default=None, description="Bytes of the weights.")
    kv: int | None = Field(default=None, description="Bytes of keys and values, for the context that is asked for.")
    own: int | None = Field(default=None, description="Bytes that the engine holds beside them.")
    total: int | None = Field(default=None, description="Bytes of all three.")
    available: int | None = Field(default=None, description="Bytes that a pod may have.")
    fits: bool | None = Field(default=None, description="Whether the total is there; left out where nothing is known.")


class LoadingStatus(Part):
    phase: Literal["Downloading", "Loading"] = Field(
        default="Loading", description="Whether it brings the model's files from their source, or reads them."
    )
    pod: str = Field(description="The pod that does so.")
    bytes: int = Field(description="Bytes of the model's files that it has.")
    total: int = Field(description="Bytes that they have.")
    bytes_per_second: int = Field(description="How fast it gets them, from the first to the present one.")
    eta_seconds: int | None = Field(default=None, description="Seconds until it has all, at that rate.")


class Scale(Part):
    before: int = Field(alias="from", description="Replicas before.")
    to: int = Field(description="Replicas after.")
    why: str = Field(description="Who asked for it, and by which measure.", max_length=1024)
    when: str = Field(description="When it was begun.", json_schema_extra={"format": "date-time"})


class Condition(Part):
    type: str = Field(description="What it is about, such as Ready.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(description="The cause, as one word.", max_length=1024)
    message: str = Field(description="The cause, for people.", max_length=32768)
    last_transition_time: str = Field(
        description="When status last changed.", json_schema_extra={"format": "date-time"}
    )
    observed_generation: int = Field(description="The generation of the spec that this is about.")


class Status(Part):
    observed_generation: int = Field(description="The generation of the spec that this status is about.")
    conditions: list[Condition] = Field(
        default=[], description="What is so and what is not, each with its cause.", json_schema_extra=list_by("type")
    )
    replicas: int = Field(default=0, description="Pods that there are.")
    ready_replicas: int = Field(default=0, description="Pods that serve.")
    selector: str = Field(default="", description="A label selector for exactly this resource's pods.")
    url: str = Field(default="", description="Where the OpenAI API of this service alone answers in the cluster.")
    model: ModelStatus | None = Field(default=None, description="The model, as pods that serve it have told.")
    memory: Memory | None = Field(default=None, description="What a pod needs at least, and what it has, in bytes.")
    loading: LoadingStatus | None = Field(
        default=None, description="How far the pod that has the most before it is in downloading or loading the model."
    )
    revision: str = Field(default="", description="Short hash of all that makes the pods what they are.")
    last_scale: list[Scale] = Field(
        default=[],
        max_length=5,
        description="The last changes of the replicas, the latest first.",
        json_schema_extra=atomic_list(),
    )

    def condition(self, type: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type), None)


def understood(body: Mapping[str, Any]) -> Status | None:
    """What this operator understands of a status that another version may have written, field by field; None where
    not even the generation is told."""
    rest = copy.deepcopy(dict(body))
    while rest:
        try:
            return Status.model_validate(rest)
        except ValidationError as e:
            places = sorted({_place(error) for error in e.errors()}, key=lambda p: [(isinstance(x, int), x) for x in p])
        if () in places:
            return None
        for place in reversed(places):  # of a list the last first
            _remove(rest, place)
    return None


def _place(error: ErrorDetails) -> tuple[int | str, ...]:
    """What has to go: the field that is odd, or what lacks one that it needs."""
    return error["loc"][:-1] if error["type"] == "missing" else error["loc"]


def _remove(tree: Any, place: tuple[int | str, ...]) -> None:
    *way, last = place
    for step in way:
        tree = tree[step]
    del tree[last]
