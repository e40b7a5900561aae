"""What the engines' files have in common: command lines, probes, refusals. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forebay_operator.program import MODEL_DIRECTORY
from forebay_operator.quantity import whole
from forebay_operator.resource import Spec

LOADING_SECONDS = 3600  # the longest that a model may take to load before its container is started again
STALLED_GRACE = 10  # seconds: an engine whose steps do not end has nothing to finish
GPUS = ("nvidia.com/", "amd.com/")
WRITABLE = {"HOME": "/tmp"}  # the root is read-only: caches of compiled kernels go here


def given(options: Mapping[str, object | None]) -> tuple[str, ...]:
    """--name=value of each that has a value; a name alone where the value is True; once for each of several values."""
    pairs = [(n, v) for n, vs in options.items() for v in (vs if isinstance(vs, tuple) else (vs,))]
    return tuple(n if v is True else f"{n}={v}" for n, v in pairs if v is not None and v is not False)


def probes(ready: str, alive: str, loading_seconds: int = LOADING_SECONDS) -> dict[str, Any]:
    """Ready is noticed within a second; a model may take long to load; a stalled engine is started again, without the
    grace that a pod has for finishing its requests."""
    restart = {"terminationGracePeriodSeconds": STALLED_GRACE}
    at = {"path": ready, "port": "http"}
    return {
        "startupProbe": {
            "httpGet": at,
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": loading_seconds,
            **restart,
        },
        "readinessProbe": {"httpGet": at, "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 2},
        "livenessProbe": {
            "httpGet": {"path": alive, "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
            **restart,
        },
    }


def gpus(spec: Spec) -> int:
    """How many GPUs each pod holds."""
    held = {**spec.resources.requests, **spec.resources.limits}
    return sum(whole(count) for name, count in held.items() if name.startswith(GPUS))


def tensor(spec: Spec) -> int | None:
    """Over how many GPUs each layer is spread; None where there is nothing to spread over."""
    asked = spec.engine.parallelism
    count = asked.tensor or gpus(spec) * asked.nodes // asked.pipeline
    return count if count > 1 else None


def stages(spec: Spec) -> int | None:
    """Into how many the layers are cut; None where they are not."""
    count = spec.engine.parallelism.pipeline
    return count if count > 1 else None


def model_path(spec: Spec) -> str:
    return f"{MODEL_DIRECTORY}/{spec.model.file}" if spec.model.file else MODEL_DIRECTORY


def own_arguments(spec: Spec, names: Iterable[str]) -> list[str]:
    """Refusals of arguments in the spec that only the operator may set."""
    own = {n.lstrip("-").replace("_", "-") for n in names}
    flags = [a for a in spec.engine.args if a.startswith("-")]
    return [f"spec.engine.args: {f}" for f in flags if f.split("=")[0].lstrip("-").replace("_", "-") in own]


def unheard(spec: Spec, fields: Mapping[str, bool]) -> list[str]:
    """The fields of those that are set, as refusals."""
    return [f"spec.{name}" for name, is_set in fields.items() if is_set]


def no_pipeline(spec: Spec) -> Mapping[str, bool]:
    return {"engine.parallelism.pipeline": spec.engine.parallelism.pipeline > 1}


def one_node(spec: Spec) -> Mapping[str, bool]:
    return {"engine.parallelism.nodes": spec.engine.parallelism.nodes > 1}


def no_parallelism(spec: Spec) -> Mapping[str, bool]:
    chosen = spec.engine.parallelism
    return {"engine.parallelism.tensor": (chosen.tensor or 1) > 1, **no_pipeline(spec), **one_node(spec)}


def unequal_parallelism(spec: Spec) -> Mapping[str, bool]:
    """GPUs that would lie idle, or are not there."""
    asked, held = spec.engine.parallelism, gpus(spec)
    if asked.tensor is None and asked.pipeline == 1 and asked.nodes == 1:
        return {}
    there = held * asked.nodes
    spread = (asked.tensor or max(there // asked.pipeline, 1)) * asked.pipeline
    pods = f"{asked.nodes} nodes of {held} GPUs" if asked.nodes > 1 else f"{held} GPUs"
    return {f"engine.parallelism: it needs {spread} GPUs, resources give {pods}": spread != there}


def kv_dtype(spec: Spec, words: Mapping[str, str]) -> str | None:
    """The engine's word for spec.engine.kvCache.dtype; None for its own choice."""
    return words.get(spec.engine.kv_cache.dtype)


def unknown_kv_dtype(spec: Spec, words: Mapping[str, str]) -> Mapping[str, bool]:
    chosen = spec.engine.kv_cache.dtype
    return {f"engine.kvCache.dtype: {chosen}": chosen != "auto" and chosen not in words}


def one_name(spec: Spec) -> Mapping[str, bool]:
    return {"model.aliases": bool(spec.model.aliases)}


def no_quantization(spec: Spec) -> Mapping[str, bool]:
    chosen = spec.engine.quantization
    return {f"engine.quantization: {chosen}": chosen in ("int8", "int4")}
