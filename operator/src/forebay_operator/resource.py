"""The InferenceService: its spec and status as pydantic models, the one source of the CRD's schema (crd.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel

GROUP, VERSION, KIND, PLURAL = "forebay.dev", "v1alpha1", "InferenceService", "inferenceservices"
API_VERSION = f"{GROUP}/{VERSION}"
MAX_NAME = 50  # a Service's name has 63 characters; the rest is for the suffixes of children to come
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"  # a Service's name: no dots, a letter first

QUANTITY_PATTERN = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
BYTES_PATTERN = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
IMAGE = r"[A-Za-z0-9][A-Za-z0-9.:_/@-]*"
SOURCE_RULE = (
    rf"self.matches('^oci://{IMAGE}$') || self.matches('^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[^/].*)?$')"
    r" || self.matches('^hf://[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+(@[A-Za-z0-9_./-]+)?$')"
)


RULED = "x-ruled"  # not required by the schema, which would hide the rules beside it, but by a rule of its parent


def rule(expression: str, message: str) -> dict[str, str]:
    """A CEL rule of the CRD."""
    return {"rule": expression, "message": message}


def checked(*rules: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"x-kubernetes-validations": list(rules), **more}


def atomic_list() -> dict[str, Any]:
    return {"x-kubernetes-list-type": "atomic"}


def list_by(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def int_or_string(pattern: str) -> WithJsonSchema:
    either = [{"type": "integer"}, {"type": "string"}]
    return WithJsonSchema({"anyOf": either, "pattern": pattern, "maxLength": 32, "x-kubernetes-int-or-string": True})


Quantity = Annotated[
    str, BeforeValidator(str), StringConstraints(pattern=QUANTITY_PATTERN), int_or_string(QUANTITY_PATTERN)
]
Bytes = Annotated[str, BeforeValidator(str), int_or_string(BYTES_PATTERN)]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=253)]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=LABEL_VALUE)]
ObjectName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Milliseconds = Annotated[str, StringConstraints(max_length=16, pattern=r"^[0-9]+(\.[0-9]+)?(ms|s)$")]


class Part(BaseModel):
    """A part of the resource: camelCase outside, unknown fields refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Model(Part):
    source: str = Field(
        description="Where the model's files come from: oci://IMAGE (an image whose root holds them, mounted as a "
        "volume), pvc://CLAIM[/PATH] (a volume that holds them), or hf://ORG/NAME[@REVISION] (a hub).",
        min_length=1,
        max_length=1024,
        json_schema_extra=checked(
            rule(SOURCE_RULE, "must be oci://IMAGE, pvc://CLAIM[/PATH] or hf://ORG/NAME[@REVISION]")
        ),
    )
    file: str | None = Field(
        default=None,
        description="The model's file within the source, such as a GGUF file; the whole directory when left out.",
        min_length=1,
        max_length=253,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$",
        json_schema_extra=checked(rule("!self.contains('..')", "file lies within the source: no '..'")),
    )
    served_name: ShortText | None = Field(
        default=None, description="The model name by which requests ask for it; the resource's own name when left out."
    )
    context_length: int | None = Field(
        default=None,
        ge=16,
        le=16_777_216,
        description="The most tokens of one sequence, prompt and answer together; what the model allows when left out.",
    )
    credentials_secret: ObjectName | None = Field(
        default=None,
        description="Name of a Secret in the same namespace for getting the model: for hf:// its key `token` is the "
        "hub's token, for oci:// it is a pull secret. The pods are rolled when its contents change.",
    )


class Speculative(Part):
    method: Literal["none", "ngram"] = Field(
        default="none", description="How draft tokens are found: none, or ngram (looked up in the sequence itself)."
    )
    num_tokens: int = Field(default=4, ge=1, le=16, description="The most draft tokens that are verified in one step.")


class Limits(Part):
    max_num_seqs: int | None = Field(
        default=None, ge=1, le=4096, description="The most sequences that run in one step."
    )
    max_num_batched_tokens: int | None = Field(
        default=None, ge=1, le=1_048_576, description="The token budget of one step, over all its sequences."
    )
    max_num_waiting: int | None = Field(
        default=None, ge=0, le=1_048_576, description="The most requests that wait; one more is answered 429."
    )
    kv_cache_memory: Bytes | None = Field(
        default=None, description="Memory for the KV cache, such as 2Gi; sized by the engine when left out."
    )


class EnvVar(Part):
    name: str = Field(
        description="Name of the environment variable.",
        min_length=1,
        max_length=256,
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$",
    )
    value: str = Field(default="", max_length=32768, description="Value of the environment variable.")


OWN_ARGUMENTS = ("host", "port", "served-model-name", "drain-grace", "api-key")


class Engine(Part):
    type: Literal["forebay", "vllm", "sglang", "llamacpp", "tgi", "tensorrt-llm"] = Field(
        default="forebay",
        description="The engine that runs the model. A field that it cannot honour is refused by name in the condition "
        "Accepted.",
    )
    image: str | None = Field(
        default=None,
        description="The engine's image, in place of the operator's default for its type; needed where it has none.",
        min_length=1,
        max_length=1024,
        pattern=f"^{IMAGE}$",
    )
    quantization: Literal["auto", "none", "int8", "int4"] = Field(
        default="auto",
        description="What the weights are turned into on loading: none leaves them as they are; auto is int8 on a CPU, "
        "where it is several times faster, and none on a GPU.",
    )
    prefix_caching: bool = Field(default=True, description="Whether KV blocks of equal prompt beginnings are shared.")
    speculative: Speculative = Field(default_factory=Speculative, description="Speculative decoding.")
    limits: Limits = Field(default_factory=Limits, description="Bounds of the engine; its own defaults when left out.")
    args: list[Annotated[str, StringConstraints(max_length=4096)]] = Field(
        default=[],
        max_length=64,
        description="Further arguments of the engine, after those that the operator makes from the other fields.",
        json_schema_extra=checked(
            rule(
                f"self.all(a, !a.matches('^--({'|'.join(OWN_ARGUMENTS)})(=|$)'))",
                f"args cannot set {', '.join('--' + a for a in OWN_ARGUMENTS)}: the operator does",
            ),
            **atomic_list(),
        ),
    )
    env: list[EnvVar] = Field(
        default=[], max_length=64, description="Environment variables of the engine.", json_schema_extra=list_by("name")
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


class Rollout(Part):
    progress_deadline_seconds: int = Field(
        default=1800,
        ge=30,
        le=86400,
        description="How long a new revision may go without progress before the resource is Degraded, in seconds. It "
        "is still waited for, and the former revision serves on.",
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
            )
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
    pod_template: PodTemplate = Field(default_factory=PodTemplate, description="What else the pods are made with.")


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


class InvalidSpec(Exception):
    """The user's to mend: not retried until the spec changes."""


@dataclass(frozen=True, slots=True)
class InferenceService:
    """One resource as read from the API server. `spec` is InvalidSpec where this operator does not understand it."""

    name: str
    namespace: str
    uid: str
    generation: int
    created: datetime
    spec: Spec | InvalidSpec
    status: Status | None = None
    deleting: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def url(self) -> str:
        return f"http://{self.name}.{self.namespace}.svc"

    @property
    def model_name(self) -> str:
        served = None if isinstance(self.spec, InvalidSpec) else self.spec.model.served_name
        return served or self.name


def parse(body: Mapping[str, Any]) -> InferenceService:
    meta = body["metadata"]
    return InferenceService(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        generation=meta["generation"],
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        spec=_spec(body.get("spec") or {}),
        status=_status(body.get("status")),
        deleting="deletionTimestamp" in meta,
    )


def _spec(body: Mapping[str, Any]) -> Spec | InvalidSpec:
    try:
        return Spec.model_validate(body)
    except ValidationError as e:
        first = e.errors()[0]
        path = ".".join(["spec", *map(str, first["loc"])])
        return InvalidSpec(f"{path}: {first['msg']}")


def _status(body: Mapping[str, Any] | None) -> Status | None:
    """None where there is none yet, or one of another version that is written anew."""
    try:
        return Status.model_validate(body) if body else None
    except ValidationError:
        return None
