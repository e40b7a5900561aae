"""spec: its parts, and the rules that cross them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from forebay_operator.resource.access import Access
from forebay_operator.resource.engine import Engine
from forebay_operator.resource.model import Model
from forebay_operator.resource.pods import PodTemplate, Resources
from forebay_operator.resource.scaling import Scaling
from forebay_operator.resource.schema import Part, checked, rule


class Rollout(Part):
    progress_deadline_seconds: int = Field(
        default=1800,
        ge=30,
        le=86400,
        description="How long a new revision may go without progress before the resource is Degraded, in seconds. It "
        "is still waited for, and the former revision serves on.",
    )
    surge: int = Field(
        default=1,
        ge=1,
        le=100,
        description="How many pods of a new revision are started at once, before as many old ones go.",
    )
    in_place: Literal["NoAccelerator", "Never"] = Field(
        default="NoAccelerator",
        description="When an old pod goes before its successor serves: NoAccelerator only where no accelerator is free "
        "and the old pod's are enough for the new one; Never waits for room instead.",
    )


class Spec(Part):
    model: Model = Field(
        description="The model that is served.",
        json_schema_extra=checked(
            rule(
                "!has(self.credentialsSecret) || !self.source.startsWith('pvc://')",
                "credentialsSecret has no use with a pvc:// source",
            ),
            rule(
                "!has(self.revision) || (self.source.startsWith('hf://') && !self.source.contains('@'))",
                "revision is of an hf:// source, and said once: there or after @ in source",
            ),
            rule(
                "!has(self.cache) || self.source.startsWith('hf://') || self.source.startsWith('s3://')",
                "cache is for hf:// and s3:// sources: the others are volumes themselves",
            ),
            rule(
                "!has(self.aliases) || !has(self.servedName) || !(self.servedName in self.aliases)",
                "servedName must not be among the aliases",
            ),
        ),
    )
    engine: Engine = Field(default_factory=Engine, description="What runs the model, and how.")
    resources: Resources = Field(
        default_factory=Resources,
        description="What each pod asks for and may use, as in a pod.",
        json_schema_extra=checked(
            rule(
                "!has(self.gpu) || [has(self.requests) ? self.requests : {}, has(self.limits) ? self.limits : {}]"
                ".all(m, m.all(k, !k.startsWith('nvidia.com/')))",
                "gpu and nvidia.com/ in requests or limits exclude each other",
            ),
            rule(
                "!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || "
                "quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",
                "requests must not be larger than limits",
            ),
        ),
    )
    replicas: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="How many pods serve. kubectl scale and the autoscaler write it; 0 stops the service.",
    )
    scaling: Scaling | None = Field(
        default=None,
        description="Lets an autoscaler set the replicas; without it they stay as they are.",
        json_schema_extra=checked(
            rule("self.minReplicas <= self.maxReplicas", "minReplicas must not be larger than maxReplicas"),
            rule(
                "has(self.targets) && (has(self.targets.queueDepth) || has(self.targets.ttftP95))",
                "targets needs queueDepth, ttftP95 or both",
            ),
        ),
    )
    rollout: Rollout = Field(default_factory=Rollout, description="How a new revision takes the place of the former.")
    access: Access = Field(default_factory=Access, description="Who may reach the pods.")
    pod_template: PodTemplate = Field(default_factory=PodTemplate, description="What else the pods are made with.")


class InvalidSpec(Exception):
    """The user's to mend: not retried until the spec changes."""
