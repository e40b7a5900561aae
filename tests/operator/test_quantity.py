"""Quantities as Kubernetes writes them."""

import pytest

from forebay_operator.quantity import parse, whole


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        ("2Gi", 2**31),
        ("1.5k", 1500),
        ("7", 7),
        ("3e3", 3000),
        ("2E", 2 * 10**18),
        ("1E3", 1000),
        ("1Ei", 2**60),
        (".5M", 500_000),
    ],
)
def test_bytes(quantity: str, number: int) -> None:
    assert whole(quantity) == number


def test_parts_of_one() -> None:
    assert parse("250m") * 4 == 1


@pytest.mark.parametrize("quantity", ["1GB", "2g", "", "Gi", "-1"])
def test_an_unknown_unit_is_refused_and_not_taken_for_one(quantity: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        parse(quantity)
