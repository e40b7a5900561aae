"""Quantities as Kubernetes writes them. No I/O."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {
    "": 1,
    **{unit: Decimal(10) ** power for unit, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
    **{f"{unit}i": 2 ** (10 * power) for power, unit in enumerate("KMGTPE", start=1)},
}
LARGEST = Decimal(2**63 - 1)  # larger ones are this one, as in Kubernetes
_HIGHEST_POWER = 40  # of ten; its numbers are beyond all others, or nothing, and computed at once


def parse(quantity: str) -> Decimal:
    """2Gi -> 2147483648, 500m -> 0.5, 2e3 -> 2000. ValueError for a unit that Kubernetes does not have."""
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))", quantity)
    if found is None or (found[3] or "") not in UNITS:
        raise ValueError(f"{quantity!r} is no quantity")
    return min(Decimal(found[1]) * (_power_of_ten(int(found[2])) if found[2] else UNITS[found[3]]), LARGEST)


def _power_of_ten(power: int) -> Decimal:
    return Decimal(10) ** max(-_HIGHEST_POWER, min(power, _HIGHEST_POWER))


def whole(quantity: str) -> int:
    """Bytes, or whatever else has no parts: what is less than one of it is left out."""
    return int(parse(quantity))
