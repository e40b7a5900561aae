"""The content blocks of a message in the making. What is done to them is told as events, streamed or not."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from forebay_runtime.text.answer import ArgumentsSaid, CallBegun, Piece, Said, Thought

Json = dict[str, Any]


class ContentBlocks:
    """Give it the answer's pieces; it returns the events that tell of them."""

    def __init__(self) -> None:
        self.blocks: list[Json] = []  # as they are once the answer has ended
        self._open: Json | None = None  # as it began
        self._texts: list[str] = []

    def take(self, piece: Piece) -> list[Json]:
        match piece:
            case Said(text):
                return self._within({"type": "text", "text": ""}) + self._add("text_delta", "text", text)
            case Thought(text):
                opened = self._within({"type": "thinking", "thinking": "", "signature": ""})
                return opened + self._add("thinking_delta", "thinking", text)
            case CallBegun(_, call_id, name):
                return self.close() + self._begin({"type": "tool_use", "id": call_id, "name": name, "input": {}})
            case ArgumentsSaid(_, text):
                return self._add("input_json_delta", "partial_json", text)

    def close(self) -> list[Json]:
        """Ends the block that is open, if one is."""
        if self._open is None:
            return []
        event = {"type": "content_block_stop", "index": len(self.blocks)}
        self.blocks.append(_filled(self._open, "".join(self._texts)))
        self._open = None
        return [event]

    def _within(self, block: Json) -> list[Json]:
        """Goes on with the open block, or begins this one, if that is of another type."""
        if self._open is not None and self._open["type"] == block["type"]:
            return []
        return self.close() + self._begin(block)

    def _begin(self, block: Json) -> list[Json]:
        self._open = block
        self._texts = []
        return [{"type": "content_block_start", "index": len(self.blocks), "content_block": block}]

    def _add(self, kind: str, field: str, text: str) -> list[Json]:
        self._texts.append(text)
        return [{"type": "content_block_delta", "index": len(self.blocks), "delta": {"type": kind, field: text}}]


def _filled(block: Json, text: str) -> Json:
    if block["type"] != "tool_use":
        return block | {block["type"]: text}
    try:
        given = from_json(text or "{}", allow_partial=True)  # all there is of arguments that max_tokens cut
    except ValueError:
        given = {}
    return block | {"input": given if isinstance(given, dict) else {}}
