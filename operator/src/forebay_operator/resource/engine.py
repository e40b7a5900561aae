"""spec.engine: what runs the model, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from forebay_operator.resource.schema import IMAGE, Bytes, Part, atomic_list, checked, list_by, rule

OWN_ARGUMENTS = ("host", "port", "served-model-name", "drain-grace", "api-key")


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


class KvCache(Part):
    dtype: Literal["auto", "bf16", "f32", "fp8", "int8"] = Field(
        default="auto", description="The numbers that keys and values are kept in; auto leaves it to the engine."
    )


class Parallelism(Part):
    tensor: int | None = Field(
        default=None, ge=1, le=64, description="Over how many GPUs each layer is spread; all there are when left out."
    )
    pipeline: int = Field(default=1, ge=1, le=64, description="Into how many stages the layers are cut.")
    nodes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Of how many pods, each with GPUs of its own, one replica is made; more than one needs the API of "
        "LeaderWorkerSets in the cluster.",
    )


class EnvVar(Part):
    name: str = Field(
        description="Name of the environment variable.",
        min_length=1,
        max_length=256,
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$",
    )
    value: str = Field(default="", max_length=32768, description="Value of the environment variable.")


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
    kv_cache: KvCache = Field(default_factory=KvCache, description="How keys and values are kept.")
    parallelism: Parallelism = Field(
        default_factory=Parallelism,
        description="How one replica is spread over GPUs and nodes.",
        json_schema_extra=checked(
            rule(
                "(has(self.nodes) && self.nodes > 1) == (has(oldSelf.nodes) && oldSelf.nodes > 1)",
                "whether nodes is one or several is immutable: make another resource, and move the model's name to it",
            )
        ),
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
