"""Live objects as values; nothing that a user wrote on a pod may blind the operator to all others."""

from __future__ import annotations

from typing import Any

import pytest

from forebay_operator.api_names import DELETION_COST, DRAINING_ANNOTATION, OUT_OF_ROTATION, ROTATION_LABEL
from forebay_operator.observed import Pod, parse_pod
from tests.operator.builders import pod_body


def noted(notes: dict[str, str]) -> Pod:
    body = pod_body("p", "r", ready=True)
    body["metadata"]["labels"][ROTATION_LABEL] = OUT_OF_ROTATION
    return parse_pod({**body, "metadata": {**body["metadata"], "annotations": notes}})


@pytest.mark.parametrize("stamp", ["", "soon", "2026-03-01T12:00:00", "9" * 5000])
def test_a_time_that_is_none_is_passed_over(stamp: str) -> None:
    assert noted({DRAINING_ANNOTATION: stamp}).draining_since is None


@pytest.mark.parametrize("cost", ["", "-", "--5", "\u00b2", "1e3", "9" * 5000])
def test_a_cost_that_is_none_is_passed_over(cost: str) -> None:
    assert noted({DELETION_COST: cost}).deletion_cost is None


@pytest.mark.parametrize("cost", [-1, 0, 1_000_000])
def test_a_cost_is_read(cost: int) -> None:
    assert noted({DELETION_COST: str(cost)}).deletion_cost == cost


@pytest.mark.parametrize(("count", "number"), [("2", 2), (2, 2), ("1k", 1000), ("1e3", 1000)])
def test_accelerators_are_counted_in_any_quantity_of_kubernetes(count: Any, number: int) -> None:
    body = pod_body("p", "r")
    body["spec"] = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": count}}}]}
    assert parse_pod(body).accelerators == {"nvidia.com/gpu": number}
