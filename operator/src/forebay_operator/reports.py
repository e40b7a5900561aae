"""What a pod of our own runtime tells of itself: what its model is and takes, and how far its loading is. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Footprint:
    """Counts of parameters, tokens and bytes. `own_bytes`: what the process holds beside weights and KV cache."""

    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    kv_dtype: str
    own_bytes: int
    context: int
    model_context: int
    quantization: str


@dataclass(frozen=True, slots=True)
class Loading:
    """Of the pod's model `bytes` of `total` are read, after `seconds`."""

    pod: str
    bytes: int
    total: int
    seconds: float


def parse_footprint(version: Mapping[str, Any]) -> Footprint:
    """From the answer of /version. KeyError, TypeError or ValueError where the runtime is of another version."""
    model = version["model"]
    return Footprint(
        parameters=int(model["parameters"]),
        weight_bytes=int(model["weight_bytes"]),
        kv_bytes_per_token=int(model["kv_bytes_per_token"]),
        kv_dtype=str(model["kv_dtype"]),
        own_bytes=int(model["other_bytes"]),
        context=int(model["context"]),
        model_context=int(model["model_context"]),
        quantization=str(version["quantization"]),
    )


def parse_loading(pod: str, answer: Mapping[str, Any]) -> Loading:
    """From a 503 of /ready. KeyError, TypeError or ValueError where it is one for another reason."""
    told = answer["loading"]
    return Loading(pod, int(told["bytes"]), int(told["total"]), float(told["seconds"]))
