"""What is said becomes content blocks, and events that tell the same."""

from __future__ import annotations

from typing import Any

from forebay_runtime.server.messages.output import ContentBlocks
from forebay_runtime.text.answer import ArgumentsSaid, CallBegun, Piece, Said, Thought

PIECES: list[Piece] = [
    Thought("let "),
    Thought("me"),
    Said("I "),
    Said("call"),
    CallBegun(0, "t1", "f"),
    ArgumentsSaid(0, '{"a"'),
    ArgumentsSaid(0, ":1}"),
    CallBegun(1, "t2", "g"),
]


def told(pieces: list[Piece]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    content = ContentBlocks()
    events = [event for piece in pieces for event in content.take(piece)]
    return content.blocks, events + content.close()


def test_each_run_of_pieces_is_a_block() -> None:
    blocks, _ = told(PIECES)
    assert blocks == [
        {"type": "thinking", "thinking": "let me", "signature": ""},
        {"type": "text", "text": "I call"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
    ]


def test_events_open_fill_and_close_each_block_in_turn() -> None:
    _, events = told(PIECES)
    told_of = [(e["index"], e["type"].removeprefix("content_block_")) for e in events]
    deltas = [2, 2, 2, 0]
    want = []
    for index, count in enumerate(deltas):
        want += [(index, "start"), *[(index, "delta")] * count, (index, "stop")]
    assert told_of == want
    joined = "".join(e["delta"]["partial_json"] for e in events if "partial_json" in e.get("delta", {}))
    assert joined == '{"a":1}'


def test_arguments_that_were_cut_are_what_there_is_of_them() -> None:
    blocks, _ = told([CallBegun(0, "t1", "f"), ArgumentsSaid(0, '{"a": 1, "b": [2, ')])
    assert blocks[0]["input"] == {"a": 1, "b": [2]}
