"""A vector as the client wants it."""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Sequence


def normalized(vector: Sequence[float]) -> list[float]:
    """Of length 1; one of length 0 stays."""
    length = math.hypot(*vector)
    return [x / length for x in vector] if length else list(vector)


def as_floats(vector: Sequence[float]) -> list[float]:
    """The very numbers that base64 holds."""
    return array("f", vector).tolist()


def as_base64(vector: Sequence[float]) -> str:
    """float32, little endian."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
