"""What comes back from the two generating endpoints."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import httpx2  # openai's client speaks through it
import openai
import pytest

from tests.support.toy_server import NAME, application, running

Client = httpx.AsyncClient
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running(application()) as client:
        yield client


def body(path: str, prompt: Any = "the mill", **fields: Any) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": prompt}]} if path == CHAT else {"prompt": prompt}
    return {"model": NAME, "temperature": 0, "max_tokens": 24, **asked, **fields}


async def plain(client: Client, path: str, prompt: Any = "the mill", **fields: Any) -> dict[str, Any]:
    reply = await client.post(path, json=body(path, prompt, **fields))
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def chunks(client: Client, path: str, prompt: Any = "the mill", **fields: Any) -> list[dict[str, Any]]:
    reply = await client.post(path, json=body(path, prompt, stream=True, **fields))
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [e.removeprefix("data: ") for e in reply.text.split("\n\n") if e.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return [json.loads(e) for e in events[:-1]]


def text_of(choice: dict[str, Any]) -> str:
    if "text" in choice:
        return str(choice["text"])
    return str(choice.get("message", choice.get("delta", {})).get("content") or "")


def joined(stream: list[dict[str, Any]], index: int = 0) -> tuple[str, str]:
    choices = [c for chunk in stream for c in chunk["choices"] if c["index"] == index]
    (reason,) = [c["finish_reason"] for c in choices if c["finish_reason"]]
    return "".join(map(text_of, choices)), reason


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 1, "seed": 7},
        {"stop": ["river", "😀"]},
        {"stop": [" past the ", "日本"], "temperature": 1, "seed": 3},
        {"stop": "mill", "include_stop_str_in_output": True},
        {"max_tokens": 1},
        {"n": 3, "temperature": 1, "seed": 11},
    ],
)
async def test_a_stream_is_the_plain_answer(client: Client, path: str, fields: dict[str, Any]) -> None:
    answer = await plain(client, path, **fields)
    stream = await chunks(client, path, stream_options={"include_usage": True}, **fields)
    for choice in answer["choices"]:
        assert joined(stream, choice["index"]) == (text_of(choice), choice["finish_reason"])
    usages = [{**a["usage"], "prompt_tokens_details": None} for a in (answer, stream[-1])]
    assert usages[0] == usages[1]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_a_stop_string_cuts_text_tokens_and_logprobs(client: Client, path: str) -> None:
    wanted = {"logprobs": True, "top_logprobs": 2} if path == CHAT else {"logprobs": 2}
    whole = await plain(client, path, **wanted)
    text = text_of(whole["choices"][0])
    stop = text[3:7]
    cut = await plain(client, path, stop=[stop], **wanted)
    assert text_of(cut["choices"][0]) == text[: text.find(stop)]
    assert cut["choices"][0]["finish_reason"] == "stop"
    assert cut["usage"]["completion_tokens"] < whole["usage"]["completion_tokens"]
    rows = cut["choices"][0]["logprobs"]
    tokens = [r["token"] for r in rows["content"]] if path == CHAT else rows["tokens"]
    assert text.startswith("".join(tokens))
    assert len("".join(tokens[:-1])) < text.find(stop) <= len("".join(tokens))


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_the_end_token_counts_and_is_not_shown(client: Client, path: str) -> None:
    (end,) = (await client.post("/tokenize", json={"prompt": "<|end|>"})).json()["tokens"]
    answer = await plain(client, path, logit_bias={str(end): 100}, min_tokens=2)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 3
    assert "<|end|>" not in text_of(answer["choices"][0])


async def test_streamed_chunks_keep_their_order_and_identity(client: Client) -> None:
    stream = await chunks(client, CHAT, max_tokens=4)
    assert stream[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all("role" not in c["choices"][0]["delta"] for c in stream[1:])
    assert stream[-1]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in stream}) == 1
    assert not any("usage" in c for c in stream)


async def test_usage_comes_last_or_with_every_chunk(client: Client) -> None:
    last = await chunks(client, COMPLETIONS, stream_options={"include_usage": True})
    assert [c.get("usage") for c in last[:-1]] == [None] * (len(last) - 1)
    assert last[-1]["choices"] == []
    options = {"include_usage": True, "continuous_usage_stats": True}
    running_total = [c["usage"]["completion_tokens"] for c in await chunks(client, COMPLETIONS, stream_options=options)]
    assert running_total == sorted(running_total)
    assert running_total[-1] == 24


async def test_streamed_logprobs_are_the_plain_ones(client: Client) -> None:
    wanted = {"logprobs": True, "top_logprobs": 3}
    answer = await plain(client, CHAT, **wanted)
    stream = await chunks(client, CHAT, **wanted)
    rows = [r for c in stream for choice in c["choices"] for r in (choice["logprobs"] or {"content": []})["content"]]
    assert rows == answer["choices"][0]["logprobs"]["content"]
    assert len(rows) == answer["usage"]["completion_tokens"]
    assert bytes(b for r in rows for b in r["bytes"]).decode() == text_of(answer["choices"][0])


async def test_completion_logprobs_point_into_the_text(client: Client) -> None:
    choice = (await plain(client, COMPLETIONS, logprobs=3))["choices"][0]
    rows = choice["logprobs"]
    assert len(rows["tokens"]) == len(rows["token_logprobs"]) == len(rows["top_logprobs"]) == len(rows["text_offset"])
    for token, offset in zip(rows["tokens"], rows["text_offset"], strict=True):
        assert token.startswith("bytes:") or choice["text"][offset:].startswith(token)


async def test_a_batch_of_prompts_is_answered_like_each_alone(client: Client) -> None:
    prompts = ["the river", "the mill", [5, 6, 7]]
    alone = [await plain(client, COMPLETIONS, p) for p in prompts]
    mixed = await plain(client, COMPLETIONS, prompts, n=2)
    texts = [c["text"] for c in mixed["choices"]]
    assert texts == [t for a in alone for t in [a["choices"][0]["text"]] * 2]
    assert [c["index"] for c in mixed["choices"]] == list(range(6))
    assert mixed["usage"]["prompt_tokens"] == sum(a["usage"]["prompt_tokens"] for a in alone)
    assert mixed["usage"]["completion_tokens"] == 6 * 24


async def test_choices_of_one_seed_differ_and_come_again(client: Client) -> None:
    hot = {"n": 3, "temperature": 1, "seed": 5}
    first, again = [await plain(client, CHAT, **hot) for _ in range(2)]
    texts = [text_of(c) for c in first["choices"]]
    assert len(set(texts)) == 3
    assert texts == [text_of(c) for c in again["choices"]]
    lone = await plain(client, CHAT, temperature=1, seed=5)
    assert text_of(lone["choices"][0]) == texts[0]


async def test_the_best_of_several_are_given_and_all_are_counted(client: Client) -> None:
    fields: dict[str, Any] = {"temperature": 1, "seed": 5, "ignore_eos": True, "max_tokens": 8}
    prompts = ["the mill", "the water"]
    every = (await plain(client, COMPLETIONS, prompts, n=4, logprobs=0, **fields))["choices"]
    reply = await plain(client, COMPLETIONS, prompts, n=2, best_of=4, **fields)
    ranked = [sorted(four, key=lambda c: -sum(c["logprobs"]["token_logprobs"])) for four in (every[:4], every[4:])]
    assert [c["text"] for c in reply["choices"]] == [c["text"] for four in ranked for c in four[:2]]
    assert [c["index"] for c in reply["choices"]] == [0, 1, 2, 3]
    assert all(c["logprobs"] is None for c in reply["choices"])
    assert reply["usage"]["completion_tokens"] == 2 * 4 * 8


@pytest.mark.parametrize(("best_of", "n", "stream"), [(1, 2, False), (2, 1, True)])
async def test_a_best_of_that_can_t_be_kept_is_refused(client: Client, best_of: int, n: int, stream: bool) -> None:
    reply = await client.post(COMPLETIONS, json=body(COMPLETIONS, best_of=best_of, n=n, stream=stream))
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "best_of")


async def test_without_a_seed_answers_vary(client: Client) -> None:
    answers = [await plain(client, CHAT, temperature=1) for _ in range(4)]
    assert len({text_of(a["choices"][0]) for a in answers}) > 1


async def test_echo_puts_the_prompt_in_front(client: Client) -> None:
    prompt = "naïve 日本 "
    without = await plain(client, COMPLETIONS, prompt)
    answer = await plain(client, COMPLETIONS, prompt, echo=True)
    assert answer["choices"][0]["text"] == prompt + without["choices"][0]["text"]
    assert joined(await chunks(client, COMPLETIONS, prompt, echo=True))[0] == answer["choices"][0]["text"]
    assert answer["usage"]["completion_tokens"] == without["usage"]["completion_tokens"]


async def test_cached_tokens_are_told(client: Client) -> None:
    prompt = "the river ran past the mill and " * 3
    first, second = [await plain(client, COMPLETIONS, prompt) for _ in range(2)]
    assert first["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


async def test_an_answer_ends_where_the_context_does(client: Client) -> None:
    answer = await plain(client, COMPLETIONS, [1] * 250, max_tokens=5000)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == 256


async def test_a_chat_without_limit_may_fill_the_context(client: Client) -> None:
    answer = await plain(client, CHAT, max_tokens=None, ignore_eos=True)
    assert answer["usage"]["total_tokens"] == 256


async def test_openai_s_client_works_unchanged() -> None:
    app = application()
    transport = httpx2.ASGITransport(app.asgi)
    async with running(app), httpx2.AsyncClient(transport=transport) as client:
        await ask_officially(openai.AsyncOpenAI(base_url="http://toy/v1", api_key="none", http_client=client))


async def ask_officially(official: openai.AsyncOpenAI) -> None:
    asked: Any = {"model": NAME, "messages": [{"role": "user", "content": "the mill"}], "temperature": 0}
    answer = await official.chat.completions.create(**asked, max_completion_tokens=8)
    text = ""
    async for chunk in await official.chat.completions.create(**asked, max_completion_tokens=8, stream=True):
        text += chunk.choices[0].delta.content or ""
    assert text == answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    assert [m.id for m in (await official.models.list()).data] == [NAME, "toy-alias"]
    with pytest.raises(openai.NotFoundError):
        await official.models.retrieve("other")


async def test_tokenize_and_detokenize_are_inverse(client: Client) -> None:
    tokens = (await client.post("/tokenize", json={"model": NAME, "prompt": "the river 日本<|end|>"})).json()
    assert tokens["count"] == len(tokens["tokens"])
    assert tokens["max_model_len"] == 256
    back = await client.post("/detokenize", json={"model": NAME, "tokens": tokens["tokens"]})
    assert back.json() == {"prompt": "the river 日本<|end|>"}


async def test_a_chat_s_tokens_are_its_prompt_s(client: Client) -> None:
    messages = [{"role": "user", "content": "the mill"}]
    count = (await client.post("/tokenize", json={"messages": messages})).json()["count"]
    assert (await plain(client, CHAT, "the mill"))["usage"]["prompt_tokens"] == count


async def test_a_continued_message_goes_on_where_it_ended(client: Client) -> None:
    user = {"role": "user", "content": "the mill"}
    begun = [user, {"role": "assistant", "content": "the river"}]
    fields = {"continue_final_message": True, "add_generation_prompt": False}
    tokens = (await client.post("/tokenize", json={"messages": begun, **fields})).json()["tokens"]
    text = (await client.post("/detokenize", json={"tokens": tokens})).json()["prompt"]
    assert text.endswith("<|start|>assistant\nthe river")
    answer = await plain(client, CHAT, messages=begun, **fields)
    assert answer["usage"]["prompt_tokens"] == len(tokens)
    alone = await plain(client, COMPLETIONS, tokens)
    assert text_of(answer["choices"][0]) == text_of(alone["choices"][0])
