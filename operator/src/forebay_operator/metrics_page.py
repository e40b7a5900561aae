"""An engine's page of metrics as numbers: each wanted name, summed over its label sets. No I/O."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


class IncompleteError(ValueError):
    """The page lacks what was wanted of it: no data is never zero."""


@dataclass(frozen=True, slots=True)
class Page:
    """`sums` by the name of a sample, `buckets` (cumulative, by upper bound) by that of a histogram's bucket."""

    sums: Mapping[str, float]
    buckets: Mapping[str, Mapping[float, float]]


def parse(text: str, wanted: tuple[str, ...]) -> Page:
    """ValueError for what is no such page, IncompleteError for one that lacks a wanted name.

    Only the wanted lines are parsed: the whole page would cost more than everything else that is done with it.
    """
    lines = [line for line in text.split("\n") if line.startswith(wanted)]
    sums: collections.Counter[str] = collections.Counter()
    buckets: dict[str, collections.Counter[float]] = collections.defaultdict(collections.Counter)
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            sums[sample.name] += sample.value
            if "le" in sample.labels:
                buckets[sample.name][float(sample.labels["le"])] += sample.value
    if missing := sorted(set(wanted) - set(sums)):
        raise IncompleteError(f"no {', '.join(missing)} among the metrics")
    if wrong := sorted(name for name in wanted if not 0 <= sums[name] < math.inf):
        raise IncompleteError(f"what {', '.join(wrong)} say is no count")
    return Page(sums, buckets)


def total(text: str, names: tuple[str, ...]) -> int:
    """The sum of these counts. ValueError as from `parse`."""
    sums = parse(text, names).sums
    return int(sum(sums[name] for name in names))
