"""spec.scaling: how many replicas the autoscaler keeps, and by what."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from forebay_operator.resource.schema import RULED, Milliseconds, Part, atomic_list, checked, rule


class Policy(Part):
    type: Literal["Pods", "Percent"] = Field(description="Whether value counts pods or percent of the replicas.")
    value: int = Field(ge=1, le=1000, description="The most change in one period.")
    period_seconds: int = Field(ge=1, le=1800, description="The period's length in seconds.")


class ScalingRules(Part):
    stabilization_window_seconds: int | None = Field(
        default=None,
        ge=0,
        le=3600,
        description="How long a recommendation must hold before it is followed, in seconds.",
    )
    select_policy: Literal["Max", "Min", "Disabled"] | None = Field(
        default=None, description="Which policy counts: Max the largest change, Min the smallest, Disabled none at all."
    )
    policies: list[Policy] | None = Field(
        default=None, max_length=16, description="How fast the replicas may change.", json_schema_extra=atomic_list()
    )


class Behavior(Part):
    scale_up: ScalingRules | None = Field(default=None, description="Rules for more replicas; at once when left out.")
    scale_down: ScalingRules | None = Field(
        default=None, description="Rules for fewer replicas; after a window of 60 s when left out."
    )


class Targets(Part):
    queue_depth: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Requests waiting per replica above which replicas are added."
    )
    ttft_p95: Milliseconds | None = Field(
        default=None,
        alias="ttftP95",
        description="95th percentile of the time to first token above which replicas are added, such as 500ms.",
        json_schema_extra=checked(
            rule("duration(self) >= duration('1ms')", "ttftP95 must be at least 1ms, such as 500ms or 2s")
        ),
    )


class Scaling(Part):
    min_replicas: int = Field(default=1, ge=1, le=1000, description="The fewest replicas the autoscaler goes down to.")
    max_replicas: int = Field(ge=1, le=1000, description="The most replicas the autoscaler goes up to.")
    targets: Targets = Field(
        default_factory=Targets,
        description="What the autoscaler keeps: the larger answer counts when there are several.",
        json_schema_extra={RULED: True},
    )
    behavior: Behavior | None = Field(
        default=None, description="How fast replicas come and go, as in a HorizontalPodAutoscaler."
    )
