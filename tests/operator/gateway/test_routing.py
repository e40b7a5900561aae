"""Which endpoint a request goes to."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay_operator.endpoints import Endpoint
from forebay_operator.gateway.routing import KEY_CHARACTERS, bound, pick, request_key

A, B, C = (Endpoint(f"10.0.0.{i}:8000") for i in (1, 2, 3))
names = st.lists(st.integers(1, 200), min_size=1, max_size=12, unique=True)
ENDPOINTS = names.map(lambda ns: [Endpoint(f"10.0.0.{n}:8000") for n in ns])


def test_the_same_key_goes_to_the_same_endpoint_while_it_is_idle() -> None:
    assert len({pick(b"system prompt", [A, B, C], {}) for _ in range(20)}) == 1


def test_different_keys_spread_over_the_endpoints() -> None:
    picked = collections.Counter(pick(str(i).encode(), [A, B, C], {}) for i in range(300))
    assert min(picked[e] for e in (A, B, C)) > 50


def test_an_endpoint_above_its_share_is_passed_over() -> None:
    favourite = pick(b"k", [A, B], {})
    other = B if favourite is A else A
    assert pick(b"k", [A, B], {favourite.address: 8}) is other


def test_a_single_request_in_flight_does_not_break_affinity() -> None:
    favourite = pick(b"k", [A, B], {})
    assert pick(b"k", [A, B], {favourite.address: 1}) is favourite


def test_without_a_prompt_the_least_loaded_takes_it() -> None:
    assert pick(b"", [A, B, C], {A.address: 2, B.address: 1, C.address: 3}) is B


@given(ENDPOINTS, st.binary(min_size=1, max_size=8), st.data())
def test_no_endpoint_is_ever_loaded_above_its_share(endpoints: list[Endpoint], key: bytes, data: st.DataObject) -> None:
    load = {e.address: data.draw(st.integers(0, 50)) for e in endpoints}
    chosen = pick(key, endpoints, load)
    assert load[chosen.address] + 1 <= bound(sum(load.values()), len(endpoints))


@given(ENDPOINTS, st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=30))
def test_when_an_endpoint_goes_only_its_own_keys_move(endpoints: list[Endpoint], keys: list[bytes]) -> None:
    gone, rest = endpoints[0], endpoints[1:]
    for key in keys if rest else []:
        before = pick(key, endpoints, {})
        assert before == gone or pick(key, rest, {}) == before


@given(ENDPOINTS, st.binary(min_size=1, max_size=8))
def test_the_order_of_the_endpoints_does_not_matter(endpoints: list[Endpoint], key: bytes) -> None:
    assert pick(key, endpoints, {}) == pick(key, endpoints[::-1], {})


def chat(*turns: tuple[str, object]) -> dict[str, object]:
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def test_a_growing_conversation_keeps_its_key() -> None:
    begin = [("system", "Be brief."), ("user", "What is a forebay?")]
    later = [*begin, ("assistant", "A pool."), ("user", "And a turbine?")]
    assert request_key(chat(*begin)) == request_key(chat(*later)) != b""


def test_a_long_shared_beginning_is_one_key_whatever_follows() -> None:
    system = ("system", "x" * KEY_CHARACTERS)
    assert request_key(chat(system, ("user", "one"))) == request_key(chat(system, ("user", "two")))


def test_short_prompts_that_differ_have_different_keys() -> None:
    assert request_key({"prompt": "one"}) != request_key({"prompt": "two"})


def test_text_in_parts_is_the_text() -> None:
    parts = [{"type": "text", "text": "What is "}, {"type": "image_url"}, {"type": "text", "text": "this?"}]
    assert request_key(chat(("user", parts))) == request_key(chat(("user", "What is this?")))


@pytest.mark.parametrize(
    ("prompt", "key"),
    [
        ("hi", b"hi"),
        (["hi", "ho"], b"hi"),
        ([1, 2, 3], b"1,2,3"),
        ([[1, 2], [3]], b"1,2"),
        (None, b""),
        ({}, b""),
        ([], b""),
    ],
)
def test_keys_of_prompts(prompt: object, key: bytes) -> None:
    assert request_key({"prompt": prompt}) == key


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["role", "content", "text", "x"]), inner)
    ),
    max_leaves=12,
)


@given(json, json)
def test_no_body_is_an_error(messages: object, prompt: object) -> None:
    assert len(request_key({"messages": messages, "prompt": prompt}).decode("utf-8", "surrogatepass")) <= KEY_CHARACTERS
