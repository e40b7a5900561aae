"""Ratios say how we stand against the best of the others, and only then."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from bench import report
from bench.cases import Contender


@dataclass
class Named:
    name: str
    width: str
    ours: bool = False


FIELD = cast(
    "list[Contender]",
    [
        Named("forebay-int8", "int8", True),
        Named("forebay-int4", "int4", True),
        Named("q8", "int8"),
        Named("q4", "int4"),
    ],
)


def test_a_rate_is_compared_with_the_fastest_peer() -> None:
    medians = {"m/decode-1 tokens/s": {"forebay-int8": 30.0, "forebay-int4": 20.0, "q8": 5.0, "q4": 15.0}}
    assert report.ratios(medians, FIELD) == {"m/decode-1 tokens/s": 2.0}


def test_a_time_is_compared_with_the_shortest_of_a_peer() -> None:
    medians = {"m/start-up s": {"forebay-int8": 3.0, "forebay-int4": 2.0, "q8": 8.0, "q4": 4.0}}
    assert report.ratios(medians, FIELD) == {"m/start-up s": 0.5}


def test_at_equal_width_only_contenders_of_that_width_count() -> None:
    medians = {"m/decode-1 tokens/s": {"forebay-int8": 30.0, "forebay-int4": 20.0, "q8": 10.0, "q4": 40.0}}
    assert report.ratios(medians, FIELD, "int8") == {"m/decode-1 tokens/s": 3.0}
    assert report.ratios(medians, FIELD, "int4") == {"m/decode-1 tokens/s": 0.5}


@pytest.mark.parametrize(
    ("figure", "less"),
    [("mixed tokens/s", False), ("mixed TTFT p95 ms", True), ("start-up s", True), ("perplexity", True)],
)
def test_the_unit_says_whether_less_is_better(figure: str, less: bool) -> None:
    assert report.less_is_better(f"m/{figure}") is less


@pytest.mark.parametrize("missing", ["forebay-int8", "q8"])
def test_there_is_no_ratio_where_one_side_was_not_measured(missing: str) -> None:
    values = {"forebay-int8": 30.0, "q8": 10.0}
    del values[missing]
    assert report.ratios({"m/decode-1 tokens/s": values}, FIELD) == {}


def test_figures_are_medians_of_their_rounds() -> None:
    figures = report.Figures()
    for value in (1.0, 9.0, 2.0):
        figures.note("m/decode-1 tokens/s", "q8", value)
    assert figures.medians() == {"m/decode-1 tokens/s": {"q8": 2.0}}


def test_the_file_holds_cases_ratios_and_what_they_were_measured_on(tmp_path: Path) -> None:
    medians = {"m/decode-1 tokens/s": {"forebay-int8": 30.0, "q8": 10.0}}
    report.write(tmp_path / "cpu.json", medians, FIELD, {"machine": {"threads": 2}})
    written = json.loads((tmp_path / "cpu.json").read_text())
    assert written["cases"] == medians
    assert written["ratios"] == {"m/decode-1 tokens/s": 3.0}
    assert written["machine"] == {"threads": 2}
    assert "m/decode-1" in (tmp_path / "cpu.svg").read_text()
