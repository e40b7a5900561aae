"""Label selectors."""

import pytest

from forebay_operator.metrics.selector import parse

LABELS = {"app": "llama", "tier": "gold", "example.com/zone": "a"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=llama", True),
        ("app==llama", True),
        ("app=other", False),
        ("app=llama,tier=gold", True),
        ("app=llama, tier!=gold", False),
        ("absent!=x", True),
        ("app", True),
        ("absent", False),
        ("!absent", True),
        ("!app", False),
        ("tier in (gold, silver)", True),
        ("tier in (silver)", False),
        ("tier notin (silver),app", True),
        ("tier notin (gold)", False),
        ("absent notin (gold)", True),
        ("example.com/zone=a", True),
    ],
)
def test_selectors(text: str, matches: bool) -> None:
    assert parse(text)(LABELS) is matches


@pytest.mark.parametrize(
    "text", ["=x", "app=llama tier=gold", "app in gold", "app in (gold", "!app=x", ",", "a b", "app>1"]
)
def test_what_is_no_selector_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a label selector"):
        parse(text)
