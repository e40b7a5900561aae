"""Random numbers keyed by (seed, output position): the same wherever, whenever and beside whomever they are drawn."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def _mix(x: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def uniform(seed: int, position: int) -> float:
    """In [0, 1), of 53 bits."""
    return (_mix((_mix(seed & _MASK) + position) & _MASK) >> 11) / (1 << 53)
