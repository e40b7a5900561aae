"""Requests made from the OpenAPI document, right and wrong, get replies that the document knows, and never a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from forebay_runtime.server.openapi.document import document
from forebay_runtime.server.openapi.operations import OPERATIONS as DESCRIBED
from tests.contract.test_runtime_surface import Toy
from tests.support.toy_server import NAME

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SCHEMA = schemathesis.openapi.from_dict(document("0", with_key=False))
OPERATIONS: dict[str, Any] = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}  # type: ignore[union-attr]
WRONG = [(label, GenerationMode.NEGATIVE) for label, operation in OPERATIONS.items() if operation.body]
RIGHT = [(label, GenerationMode.POSITIVE) for label in OPERATIONS]
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
STREAMED = {
    "POST /v1/chat/completions": CHAT,
    "POST /v1/completions": {"prompt": "Hello", "max_tokens": 4},
    "POST /v1/messages": CHAT,
    "POST /v1/responses": {"input": "Hello", "max_output_tokens": 4},
}
LONG = {"n": 2, "best_of": 2, "max_tokens": 4, "max_completion_tokens": 4, "max_output_tokens": 4, "min_tokens": 2}


@pytest.fixture(scope="module")
def toy() -> Iterator[Toy]:
    toy = Toy(step_seconds=0)
    yield toy
    toy.end()


def short(body: Any) -> Any:
    """The same body, for the model that is there, and with counts that are soon done."""
    if not isinstance(body, dict):
        return body
    bounded = {name: min(body[name], most) for name, most in LONG.items() if type(body.get(name)) is int}
    named = {"model": NAME} if isinstance(body.get("model"), str) else {}
    return body | bounded | named


@pytest.mark.parametrize(("label", "mode"), RIGHT + WRONG, ids=lambda value: getattr(value, "value", value))
def test_every_reply_is_one_that_the_document_knows(toy: Toy, label: str, mode: GenerationMode) -> None:
    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        case.body = short(case.body)
        case.validate_response(case.call(base_url=toy.url, timeout=60), checks=CHECKS)

    ask()


def test_every_operation_that_streams_is_asked_to() -> None:
    assert {f"POST {o.path}" for o in DESCRIBED if o.streams and o.method == "post"} == set(STREAMED)


@pytest.mark.parametrize("label", STREAMED)
def test_every_stream_is_one_that_the_document_knows(toy: Toy, label: str) -> None:
    body = {"model": NAME, "stream": True, **STREAMED[label]}
    case = OPERATIONS[label].Case(body=body, media_type="application/json")
    reply = case.call(base_url=toy.url, timeout=60)
    case.validate_response(reply, checks=CHECKS)
    assert (reply.status_code, reply.headers["content-type"][0].split(";")[0]) == (200, "text/event-stream")
