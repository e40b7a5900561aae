"""What is said becomes items, and events that tell the same."""

from __future__ import annotations

from typing import Any

from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import TypeAdapter

from forebay_runtime.server.responses.output import OutputItems
from forebay_runtime.text.answer import ArgumentsSaid, CallBegun, Piece, Said, Thought

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
ITEM: TypeAdapter[ResponseOutputItem] = TypeAdapter(ResponseOutputItem)
PIECES: list[Piece] = [
    Thought("let "),
    Thought("me"),
    Said("I "),
    Said("call"),
    CallBegun(0, "c1", "f"),
    ArgumentsSaid(0, '{"a"'),
    ArgumentsSaid(0, ":1}"),
    CallBegun(1, "c2", "g"),
    ArgumentsSaid(1, "{}"),
]


def told() -> tuple[OutputItems, list[dict[str, Any]]]:
    output = OutputItems()
    events = [e for piece in PIECES for e in output.take(piece)]
    return output, events + output.close("completed")


def test_each_run_of_pieces_is_an_item() -> None:
    output, _ = told()
    kinds = [(i["type"], i["status"]) for i in output.items]
    assert kinds == [(k, "completed") for k in ("reasoning", "message", "function_call", "function_call")]
    assert output.items[0]["content"] == [{"type": "reasoning_text", "text": "let me"}]
    assert output.items[1]["content"][0]["text"] == "I call"
    assert [i["arguments"] for i in output.items[2:]] == ['{"a":1}', "{}"]
    assert [(i["call_id"], i["name"]) for i in output.items[2:]] == [("c1", "f"), ("c2", "g")]


def test_events_and_items_are_openai_s() -> None:
    output, events = told()
    for event in events:
        EVENT.validate_python(event | {"sequence_number": 0})
    for item in output.items:
        ITEM.validate_python(item)


def test_deltas_join_to_what_is_done() -> None:
    output, events = told()
    for index, item in enumerate(output.items):
        own = [e for e in events if e["output_index"] == index]
        assert own[0]["type"] == "response.output_item.added"
        assert own[-1] == {"type": "response.output_item.done", "item": item, "output_index": index}
        deltas = "".join(e["delta"] for e in own if e["type"].endswith(".delta"))
        (whole,) = [e for e in own if e["type"].endswith(("text.done", "arguments.done"))]
        assert deltas == whole.get("text", whole.get("arguments"))


def test_what_is_cut_is_incomplete() -> None:
    output = OutputItems()
    output.take(Said("half a"))
    output.close("incomplete")
    assert output.items[0]["status"] == "incomplete"
    assert output.close("completed") == []
