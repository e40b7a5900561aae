"""status: what was last seen of the resource."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from forebay_operator.resource.schema import Part, atomic_list, list_by


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
    model: str = Field(default="", description="The model name by which requests ask for it.")
    revision: str = Field(default="", description="Short hash of all that makes the pods what they are.")
    last_scale: list[Scale] = Field(
        default=[],
        max_length=5,
        description="The last changes of the replicas, the latest first.",
        json_schema_extra=atomic_list(),
    )

    def condition(self, type: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type), None)
