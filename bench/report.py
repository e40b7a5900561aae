"""From figures to medians, ratios, a table, a JSON file and a plot."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from bench.cases import LESS_IS_BETTER, Contender

Medians = dict[str, dict[str, float]]  # by figure, then by contender


class Figures:
    """Every value that was measured. The key of a figure is `model/figure`."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, list[float]]] = {}

    def note(self, key: str, contender: str, value: float) -> None:
        self._values.setdefault(key, {}).setdefault(contender, []).append(value)

    def medians(self, prefix: str = "") -> Medians:
        chosen = {k: by for k, by in self._values.items() if k.startswith(prefix)}
        return {k: {c: statistics.median(v) for c, v in by.items()} for k, by in chosen.items()}


def less_is_better(key: str) -> bool:
    _, _, figure = key.partition("/")
    return figure.split()[-1] in LESS_IS_BETTER


def ratios(medians: Medians, contenders: Iterable[Contender], width: str | None = None) -> dict[str, float]:
    """Ours / the best peer, of what both have measured; only contenders whose weights have that width, if given."""
    of_width = [c for c in contenders if width is None or c.width == width]
    found = {}
    for key, values in medians.items():
        best: Callable[[list[float]], float] = min if less_is_better(key) else max
        ours = [values[c.name] for c in of_width if c.ours and c.name in values]
        peers = [values[c.name] for c in of_width if not c.ours and c.name in values]
        if ours and peers and best(peers):
            found[key] = best(ours) / best(peers)
    return found


def table(medians: Medians, contenders: Iterable[Contender]) -> str:
    names = [c.name for c in contenders]
    columns = {"best": ratios(medians, contenders)}
    columns |= {width: ratios(medians, contenders, width) for width in ("int8", "int4")}
    head = ["figure (v: less is better)", *names, *(f"ours/{c}" for c in columns)]
    rows = [
        [key + (" v" if less_is_better(key) else "")]
        + [_number(values.get(name)) for name in names]
        + [_number(column.get(key), 2) for column in columns.values()]
        for key, values in medians.items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return ""
    return f"{value:.{(0 if value >= 100 else 2) if digits is None else digits}f}"


def write(path: Path, medians: Medians, contenders: Iterable[Contender], about: Mapping[str, Any]) -> None:
    """The JSON file, and a plot with the same name beside it."""
    found = ratios(medians, contenders)
    widths = {width: ratios(medians, contenders, width) for width in ("int8", "int4")}
    rounded = {k: {c: float(f"{v:.5g}") for c, v in by.items()} for k, by in medians.items()}
    whole = {
        "cases": rounded,
        "ratios": _rounded(found),
        "ratios_at_equal_width": {w: _rounded(r) for w, r in widths.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**about, **whole}, indent=1) + "\n")
    path.with_suffix(".svg").write_text(plot({k: v for k, v in found.items() if k.endswith("tokens/s")}))


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {k: round(v, 3) for k, v in values.items()}


def plot(rates: Mapping[str, float]) -> str:
    """SVG: a bar for each ratio, and a line where ours is as fast as the best peer."""
    height, left, unit = 22, 260, 120
    width = left + int(unit * max([2.0, *rates.values()])) + 60
    bars = []
    for i, (key, value) in enumerate(rates.items()):
        y, colour = i * height + 30, "#2a7" if value >= 1 else "#c64"
        bars.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(key.removesuffix(" tokens/s"))}</text>'
        )
        bars.append(f'<rect x="{left}" y="{y + 3}" width="{unit * value:.0f}" height="{height - 7}" fill="{colour}"/>')
        bars.append(f'<text x="{left + unit * value + 6:.0f}" y="{y + 14}">{value:.2f}</text>')
    bottom = len(rates) * height + 36
    line = f'<path d="M{left + unit} 26V{bottom}" stroke="#000" stroke-dasharray="3"/>'
    title = '<text x="8" y="18">tokens/s: Forebay / the best peer</text>'
    size = f'width="{width}" height="{bottom + 8}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', title, *bars, line, "</svg>\n"])
