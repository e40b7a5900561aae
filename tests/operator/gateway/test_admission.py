"""Keys, and bodies before anything is done for them."""

import json

import pytest

from forebay_operator.gateway.admission import ApiKeys, parse_body
from forebay_operator.gateway.errors import Refusal

KEYS = ApiKeys.parse("# ours\nsk-one\n\n  sk-two  \n")


@pytest.mark.parametrize("header", ["Bearer sk-one", "bearer sk-two", "Bearer  sk-one"])
def test_a_known_key_is_let_in(header: str) -> None:
    KEYS.check(header)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer sk-three", "sk-one", "Basic sk-one", "Bearer # ours", "Bearer sk-one x"]
)
def test_anything_else_is_a_401_that_tells_nothing(header: str) -> None:
    with pytest.raises(Refusal) as caught:
        KEYS.check(header)
    refusal = caught.value
    assert (refusal.status, refusal.code) == (401, "invalid_api_key")
    assert "sk-" not in refusal.message


def test_no_keys_let_nobody_in() -> None:
    with pytest.raises(Refusal):
        ApiKeys.parse("").check("Bearer ")


def test_a_body_gives_its_model() -> None:
    assert parse_body(b'{"model": "llama", "x": 1}') == ("llama", {"model": "llama", "x": 1})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"not json",
        b'{"model": "m",}',
        b'{"model":"m"} more',
        b"\x00\x01",
        b'"text"',
        b"[]",
        b"42",
        b"null",
        b"true",
        b'{"model": "\xff"}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"model":"m","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ],
)
def test_what_is_no_json_object_is_a_400(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        parse_body(raw)
    assert caught.value.status == 400
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("model", [None, 7, [], {}, True, ""])
def test_a_model_of_another_type_is_named(model: object) -> None:
    with pytest.raises(Refusal) as caught:
        parse_body(json.dumps({"model": model}).encode())
    assert (caught.value.status, caught.value.param) == (400, "model")


def test_a_missing_model_is_named() -> None:
    with pytest.raises(Refusal, match="model is missing"):
        parse_body(b"{}")
