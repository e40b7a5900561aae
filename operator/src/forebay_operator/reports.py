"""What a pod of our own runtime tells of itself: what its model is and takes, and how far its loading is. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 1 << 60  # what a pod tells may be anything; more than this is nothing


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
    """Of the pod's model `bytes` of `total` are there, all but those `before` in `seconds`: brought from its source, or
    read."""

    pod: str
    bytes: int
    total: int
    seconds: float
    before: int = 0
    downloads: bool = False


def parse_footprint(version: Mapping[str, Any]) -> Footprint:
    """From the answer of /version. KeyError, TypeError or ValueError where the runtime is of another version."""
    model = version["model"]
    return Footprint(
        parameters=_count(model["parameters"], least=1),
        weight_bytes=_count(model["weight_bytes"], least=1),
        kv_bytes_per_token=_count(model["kv_bytes_per_token"], least=1),
        kv_dtype=_word(model["kv_dtype"]),
        own_bytes=_count(model["other_bytes"]),
        context=_count(model["context"], least=1),
        model_context=_count(model["model_context"], least=1),
        quantization=_word(version["quantization"]),
    )


def parse_loading(pod: str, answer: Mapping[str, Any], *, downloads: bool = False) -> Loading:
    """From a 503 of /ready. KeyError, TypeError or ValueError where it is one for another reason."""
    told = answer["loading"]
    total, seconds = _count(told["total"]), float(told["seconds"])
    if not 0 <= seconds <= _MOST:
        raise ValueError(f"{seconds} are no seconds")
    done, before = min(_count(told["bytes"]), total), _count(told.get("before", 0))
    return Loading(pod, done, total, round(seconds, 1), min(before, done), downloads)


def _count(told: Any, least: int = 0) -> int:
    """A status can hold it, and arithmetic with it ends well."""
    if type(told) is not int or not least <= told <= _MOST:
        raise ValueError(f"{str(told)[:64]} is no count of at least {least}")
    return told


def _word(told: Any) -> str:
    if not isinstance(told, str) or not re.fullmatch("[a-z0-9_]{1,32}", told):
        raise ValueError(f"{str(told)[:64]!r} is no word")
    return told
