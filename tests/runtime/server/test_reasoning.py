"""Thoughts are counted as tokens of their own, in each dialect, streamed or not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from forebay_runtime.request import FinishReason, RequestOutput
from forebay_runtime.server.choice import Choice
from forebay_runtime.text.answer import PlainParser
from forebay_runtime.text.detokenizer import Detokenizer
from forebay_runtime.text.reasoning import ReasoningParser
from tests.support.toy_server import NAME, application, running
from tests.support.toy_text import toy_tokenizer

Client = httpx.AsyncClient
BEGUN = {"role": "assistant", "content": "<think>"}
USER = {"role": "user", "content": "the mill"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(application(reasoning=True)) as client:
        yield client


def usages(reply: httpx.Response) -> list[dict[str, Any]]:
    """Of a whole answer or of a stream's events."""
    assert reply.status_code == 200, reply.text
    if reply.headers["content-type"] == "application/json":
        return [reply.json()["usage"]]
    events = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    return [e["usage"] for event in events for e in (event, event.get("response", {})) if e.get("usage")]


@pytest.mark.parametrize("streamed", [{}, {"stream": True, "stream_options": {"include_usage": True}}])
async def test_a_chat_that_only_thinks_has_no_other_tokens(client: Client, streamed: dict[str, Any]) -> None:
    asked = {"model": NAME, "messages": [USER, BEGUN], "continue_final_message": True, "max_tokens": 9, **streamed}
    usage = usages(await client.post("/v1/chat/completions", json=asked))[-1]
    assert usage["completion_tokens"] == 9
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 9}


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_without_thoughts_count_none(client: Client, stream: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if stream else {}
    chat = {"model": NAME, "messages": [USER], "max_tokens": 9, "stream": stream, **options}
    usage = usages(await client.post("/v1/chat/completions", json=chat))[-1]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 0}
    response = {"model": NAME, "input": "the mill", "max_output_tokens": 9, "stream": stream}
    usage = usages(await client.post("/v1/responses", json=response))[-1]
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}


@pytest.mark.parametrize("step", [1, 4, 1000])
def test_the_marks_count_as_thoughts_and_what_follows_does_not(step: int) -> None:
    tokenizer = toy_tokenizer()
    thought, said = tokenizer.encode("<think>the river</think>"), tokenizer.encode("\n the mill.")
    choice = Choice(0, 0, tokenizer, Detokenizer(), ReasoningParser(PlainParser(), thinking=False))
    ids = [*thought, *said]
    for at in range(0, len(ids), step):
        last = FinishReason.LENGTH if at + step >= len(ids) else None
        choice.add(RequestOutput("r", tuple(ids[at : at + step]), finish_reason=last))
        if step < 1000:
            choice.take_pieces()
    choice.take_pieces()
    assert choice.num_reasoning_tokens == len(thought)
