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


@pytest.mark.parametrize("quantity", ["1e99999999", "9E", "1000E", "9" * 30])
def test_what_is_too_large_is_the_largest_and_known_at_once(quantity: str) -> None:
    assert whole(quantity) == (9 * 10**18 if quantity == "9E" else 2**63 - 1)


def test_what_is_too_small_is_nothing() -> None:
    assert whole("1e-99999999") == 0


@pytest.mark.parametrize("quantity", ["1GB", "2g", "", "Gi", "-1", "1.2.3", "."])
def test_an_unknown_unit_is_refused_and_not_taken_for_one(quantity: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        parse(quantity)
