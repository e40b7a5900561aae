"""How long a request may take: as its header says, and no longer than the server grants."""

from __future__ import annotations

import math

from starlette.datastructures import Headers
from starlette.types import Scope

from forebay_runtime.request import RequestError

HEADER = "X-Request-Timeout"  # seconds from the request's arrival to the end of its answer


def deadline(scope: Scope, arrival: float, most: float | None) -> float | None:
    """When the request's time is over, on the clock of `arrival`; None: never. RequestError 400 for a wrong header."""
    text = Headers(scope=scope).get(HEADER)
    seconds = math.inf if text is None else _seconds(text)
    seconds = min(seconds, math.inf if most is None else most)
    return None if seconds == math.inf else arrival + seconds


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        message = f"{HEADER}: {text[:64]!r} is no number of seconds."
        raise RequestError(message, code="invalid_value", param=HEADER)
    return seconds
