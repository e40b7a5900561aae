"""Whether a model fits the memory that its pods are given, before there is a pod. No I/O.

What a model takes is not guessed: a pod that serves it has told (reports.py), and the status remembers it by source.
From there other quantizations, contexts and types of keys and values are computed. What only an upper bound would
forbid is not forbidden: that the pods can't serve is said where even the least that the spec asks for does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forebay_operator.causes import Cause
from forebay_operator.quantity import whole
from forebay_operator.resource import Spec
from forebay_operator.resource.status import Memory, ModelStatus

BYTES_PER_PARAMETER = {"none": 2.0, "int8": 1.0, "int4": 0.63}  # int4: scales, and the head in int8
BYTES_PER_NUMBER = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0, "int8": 1.05}  # int8: with its scales
KV_DTYPES = {"bf16": "bfloat16", "f32": "float32", "int8": "int8"}
SMALLEST_CONTEXT, BLOCK = 512, 16  # tokens: what the runtime serves at least, and what each sequence takes at least
OVERRULING = (
    "--max-model-len",
    "--max-num-seqs",
    "--kv-cache",
    "--quantization",
    "--dtype",
    "--kernels",
    "--block-size",
)


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes. `tokens`: of the KV cache, at least."""

    weights: int
    kv: int
    own: int
    tokens: int
    per_token: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.own


def memory(spec: Spec, model: ModelStatus) -> Memory:
    """For the status; without `fits` where nothing is claimed, and `basis` says why."""
    needs, available = _needs(spec, model), _available(spec)
    if isinstance(needs, str):
        return Memory(basis=needs, available=available)
    found = Memory(
        basis=f"told by pods of revision {model.revision}" if model.revision else "told by another resource's pods",
        weights=needs.weights,
        kv=needs.kv,
        own=needs.own,
        total=needs.total,
        available=available,
    )
    if available is None:
        return found.model_copy(update={"basis": f"{found.basis}; the pods' memory has no known limit"})
    return found.model_copy(update={"fits": shortage(spec, model) is None})


def shortage(spec: Spec, model: ModelStatus) -> Cause | None:
    """Why the pods can't serve, with the arithmetic."""
    needs, available = _needs(spec, model), _available(spec)
    if isinstance(needs, str):
        return None
    if (asked := _kv_asked(spec)) and needs.tokens * needs.per_token > asked:
        said = f"{_tokens(needs)} need {_mib(needs.tokens * needs.per_token)}"
        return Cause("DoesNotFit", f"spec.engine.limits.kvCacheMemory is {_mib(asked)}, but {said}")
    if available is None or needs.total <= available:
        return None
    parts = f"{_mib(needs.weights)} of weights + {_mib(needs.kv)} of KV cache ({_tokens(needs)})"
    own = f" + {_mib(needs.own)} of the engine's own" if needs.own else ""
    said = f"{parts}{own} = {_mib(needs.total)}, but a pod has {_mib(available)}"
    return Cause("DoesNotFit", f"the model does not fit: {said}: {_advice(spec, needs, available)}")


def _needs(spec: Spec, model: ModelStatus) -> Needs | str:
    """At least; or why nothing can be said."""
    if spec.engine.type != "forebay":
        return f"unknown: engine {spec.engine.type} does not tell what a model takes"
    if any(a.startswith(OVERRULING) for a in spec.engine.args):
        return "unknown: spec.engine.args overrule what the fields say"
    told = (model.parameters, model.bytes, model.kv_bytes_per_token, model.kv_dtype, model.own_bytes)
    parameters, held, kv, kv_dtype, own = told
    if parameters is None or held is None or kv is None or kv_dtype not in BYTES_PER_NUMBER or own is None:
        return "unknown: no pod of this source has told yet"
    per_token = _kv_per_token(spec, kv, kv_dtype)
    context = spec.model.context_length or min(model.model_context or SMALLEST_CONTEXT, SMALLEST_CONTEXT)
    tokens = context + BLOCK * ((spec.engine.limits.max_num_seqs or 1) - 1)
    on_gpu = bool(_gpus(spec))
    return Needs(
        weights=_weights(spec, model.quantization or "", parameters, held),
        kv=_kv_asked(spec) or tokens * per_token,
        own=0 if on_gpu else own,
        tokens=tokens,
        per_token=per_token,
    )


def _weights(spec: Spec, told: str, parameters: int, held: int) -> int:
    """auto is the least that it may become: nothing is forbidden by a guess. On a CPU a saved int4 stays what it is."""
    asked = spec.engine.quantization
    wanted = asked if asked != "auto" else "none" if _gpus(spec) else "int8"
    computed = held if wanted == told else int(parameters * BYTES_PER_PARAMETER[wanted])
    return min(held, computed) if asked == "auto" and not _gpus(spec) else computed


def _kv_per_token(spec: Spec, told: int, told_dtype: str) -> int:
    wanted = KV_DTYPES.get(spec.engine.kv_cache.dtype)
    if wanted is None or wanted == told_dtype:
        return told
    return int(told * BYTES_PER_NUMBER[wanted] / BYTES_PER_NUMBER[told_dtype])


def _kv_asked(spec: Spec) -> int | None:
    asked = spec.engine.limits.kv_cache_memory
    return whole(asked) if asked else None


def _available(spec: Spec) -> int | None:
    """Of a pod's GPUs, where it has any, else of its limit."""
    if _gpus(spec):
        gpu = spec.resources.gpu
        return gpu.count * gpu.memory_bytes if gpu and gpu.memory_bytes else None
    limit = spec.resources.limits.get("memory")
    return whole(limit) if limit else None


def _gpus(spec: Spec) -> Mapping[str, str]:
    held = {**spec.resources.requests, **spec.resources.limits}
    return {name: count for name, count in held.items() if name.startswith(("nvidia.com/", "amd.com/"))}


def _advice(spec: Spec, needs: Needs, available: int) -> str:
    left = (available - needs.weights - needs.own) // needs.per_token
    where = "GPUs with more memory" if _gpus(spec) else "a larger spec.resources.limits.memory"
    asked = spec.model.context_length
    if asked and left >= SMALLEST_CONTEXT and not _kv_asked(spec):
        return f"{where}, or a spec.model.contextLength of at most {left // BLOCK * BLOCK}"
    return where


def _tokens(needs: Needs) -> str:
    return f"{needs.tokens} tokens of {needs.per_token} bytes"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.0f} MiB"
