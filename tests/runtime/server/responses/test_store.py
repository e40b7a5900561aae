"""Responses are kept in bounded memory, and a recording is read from anywhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from forebay_runtime.request import RequestError
from forebay_runtime.server.responses.recording import Recording
from forebay_runtime.server.responses.store import Record, ResponseStore


def record(name: str, text: str = "x") -> Record:
    return Record({"id": name, "output": [{"text": text}]}, [{"id": "before"}], [{"id": "asked"}])


def kept(store: ResponseStore, *names: str) -> list[str]:
    return [name for name in names if name in store]


def test_the_one_not_used_for_longest_goes_first() -> None:
    store = ResponseStore(3 * record("a").size())
    for name in "abc":
        store.put(record(name))
    store.get("a")
    store.put(record("d"))
    assert kept(store, *"abcd") == ["a", "c", "d"]


def test_a_large_one_drives_out_several_and_one_too_large_itself() -> None:
    store = ResponseStore(3 * record("a").size())
    for name in "abc":
        store.put(record(name))
    store.put(record("d", "x" * record("a").size()))
    assert kept(store, *"abcd") == ["c", "d"]
    store.put(record("e", "x" * 1000))
    assert kept(store, *"abcde") == []
    assert store.num_bytes == 0


def test_a_later_state_takes_the_place_of_an_earlier_one() -> None:
    store = ResponseStore()
    store.put(record("a", "x" * 100))
    store.put(record("a", "y"))
    assert store.get("a").response["output"] == [{"text": "y"}]
    assert store.num_bytes == record("a", "y").size()


def test_what_is_not_kept_is_404_and_named() -> None:
    store = ResponseStore()
    with pytest.raises(RequestError) as refused:
        store.get("resp_x", "previous_response_id")
    assert (refused.value.status, refused.value.param) == (404, "previous_response_id")
    store.put(record("a"))
    store.delete("a")
    with pytest.raises(RequestError):
        store.delete("a")


def test_a_conversation_is_what_came_before_then_the_input_then_the_output() -> None:
    assert record("a").conversation() == [{"id": "before"}, {"id": "asked"}, {"text": "x"}]


async def test_a_recording_gives_every_reader_the_same_events() -> None:
    recording = Recording()

    async def read(first: int) -> list[bytes]:
        return [event async for event in recording.read(first)]

    readers = [asyncio.create_task(read(first)) for first in (0, 1)]
    await send(recording, b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n")
    await asyncio.sleep(0)
    await send(recording, b": still here\n\n")
    await send(recording, b"event: c\ndata: 3\n\n")
    recording.end()
    a, b, c = b"event: a\ndata: 1\n\n", b"event: b\ndata: 2\n\n", b"event: c\ndata: 3\n\n"
    assert [await reader for reader in readers] == [[a, b, c], [b, c]]
    assert await read(2) == [c]


async def send(recording: Recording, body: bytes) -> None:
    message: dict[str, Any] = {"type": "http.response.body", "body": body, "more_body": True}
    await recording.send(message)
