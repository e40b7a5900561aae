"""Quantities as Kubernetes writes them. No I/O."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {
    "": 1,
    **{unit: Decimal(10) ** power for unit, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
    **{f"{unit}i": 2 ** (10 * power) for power, unit in enumerate("KMGTPE", start=1)},
}


def parse(quantity: str) -> Decimal:
    """2Gi -> 2147483648, 500m -> 0.5, 2e3 -> 2000. ValueError for a unit that Kubernetes does not have."""
    found = re.fullmatch(r"([0-9.]+)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))", quantity)
    if found is None or (found[3] or "") not in UNITS:
        raise ValueError(f"{quantity!r} is no quantity")
    return Decimal(found[1]) * (Decimal(10) ** int(found[2]) if found[2] else UNITS[found[3]])


def whole(quantity: str) -> int:
    """Bytes, or whatever else has no parts: what is less than one of it is left out."""
    return int(parse(quantity))
