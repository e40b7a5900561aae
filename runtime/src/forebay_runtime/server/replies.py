"""OpenAI's reply objects: whole ones and the chunks of a stream, of chats and of completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from forebay_runtime.server.choice import Choice, LogprobRow
from forebay_runtime.server.prompts import Prompt
from forebay_runtime.text.answer import Answer, ArgumentsSaid, CallBegun, Piece, Said, Thought, answer_of
from forebay_runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]


class Shape(Protocol):
    """How one endpoint puts its choices, taking from them what has come. `rows` is None without logprobs."""

    whole_object: str
    chunk_object: str

    def opening(self, choice: Choice) -> Json | None:
        """A stream's first words on a choice, before any token."""
        ...

    def piece(self, choice: Choice, rows: Sequence[LogprobRow] | None) -> Json | None:
        """None where nothing has."""
        ...

    def closing(self, choice: Choice) -> Json: ...

    def whole(self, choice: Choice, rows: Sequence[LogprobRow] | None) -> Json: ...


class ChatShape:
    whole_object, chunk_object = "chat.completion", "chat.completion.chunk"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def opening(self, choice: Choice) -> Json | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}

    def piece(self, choice: Choice, rows: Sequence[LogprobRow] | None) -> Json | None:
        delta = _delta(choice.take_pieces())
        if not delta and not rows:
            return None
        delta = delta or {"content": ""}
        return {"index": choice.index, "delta": delta, "logprobs": self._logprobs(rows), "finish_reason": None}

    def closing(self, choice: Choice) -> Json:
        return {"index": choice.index, "delta": {}, "logprobs": None, "finish_reason": choice.reason}

    def whole(self, choice: Choice, rows: Sequence[LogprobRow] | None) -> Json:
        message = _message(answer_of(choice.take_pieces()))
        return {
            "index": choice.index,
            "message": message,
            "logprobs": self._logprobs(rows),
            "finish_reason": choice.reason,
        }

    def _logprobs(self, rows: Sequence[LogprobRow] | None) -> Json | None:
        return None if rows is None else {"content": self.rows(rows), "refusal": None}

    def rows(self, rows: Sequence[LogprobRow]) -> list[Json]:
        return [self._row(row) for row in rows]

    def _row(self, row: LogprobRow) -> Json:
        top = [self._entry(token_id, logprob) for token_id, logprob in row.logprobs.top]
        return self._entry(row.token_id, row.logprobs.logprob) | {"top_logprobs": top}

    def _entry(self, token_id: int, logprob: float) -> Json:
        data = self._tokenizer.token_bytes(token_id)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


class CompletionShape:
    whole_object, chunk_object = "text_completion", "text_completion"

    def __init__(self, tokenizer: Tokenizer, prompts: Sequence[Prompt], *, echo: bool) -> None:
        self._tokenizer, self._prompts, self._echo = tokenizer, prompts, echo

    def opening(self, choice: Choice) -> Json | None:
        return self._json(choice, self._echoed(choice), None, None) if self._echo else None

    def piece(self, choice: Choice, rows: Sequence[LogprobRow] | None) -> Json | None:
        text = choice.take_text()
        return self._json(choice, text, rows, None) if text or rows else None

    def closing(self, choice: Choice) -> Json:
        return self._json(choice, "", None, choice.reason)

    def whole(self, choice: Choice, rows: Sequence[LogprobRow] | None) -> Json:
        return self._json(choice, self._echoed(choice) + choice.take_text(), rows, choice.reason)

    def _echoed(self, choice: Choice) -> str:
        if not self._echo:
            return ""
        prompt = self._prompts[choice.prompt_index]
        return self._tokenizer.decode(prompt.token_ids) if prompt.text is None else prompt.text

    def _json(self, choice: Choice, text: str, rows: Sequence[LogprobRow] | None, reason: str | None) -> Json:
        return {"index": choice.index, "text": text, "logprobs": self._logprobs(rows), "finish_reason": reason}

    def _logprobs(self, rows: Sequence[LogprobRow] | None) -> Json | None:
        if rows is None:
            return None
        return {
            "tokens": [self._token(row.token_id) for row in rows],
            "token_logprobs": [row.logprobs.logprob for row in rows],
            "top_logprobs": [self._top(row) for row in rows],
            "text_offset": [row.start for row in rows],
        }

    def _top(self, row: LogprobRow) -> Json:
        """The best ones and the sampled one, by text; the better of two tokens that read the same."""
        pairs = [*row.logprobs.top, (row.token_id, row.logprobs.logprob)]
        return {self._token(token_id): logprob for token_id, logprob in sorted(pairs, key=lambda pair: pair[1])}

    def _token(self, token_id: int) -> str:
        data = self._tokenizer.token_bytes(token_id)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{b:02x}" for b in data)


def _message(answer: Answer) -> Json:
    """`content` is null where there are calls and nothing was said."""
    message: Json = {"role": "assistant", "content": answer.said, "refusal": None}
    if answer.thought:
        message["reasoning_content"] = answer.thought
    if answer.calls:
        message["content"] = answer.said or None
        message["tool_calls"] = [_call(call.call_id, call.name, call.arguments) for call in answer.calls]
    return message


def _delta(pieces: Sequence[Piece]) -> Json:
    """One delta of all the pieces; of each call one entry, which names it if it begins here."""
    said = "".join(p.text for p in pieces if isinstance(p, Said))
    thought = "".join(p.text for p in pieces if isinstance(p, Thought))
    calls: dict[int, Json] = {}
    for piece in pieces:
        match piece:
            case CallBegun(index, call_id, name):
                calls[index] = {"index": index, **_call(call_id, name, "")}
            case ArgumentsSaid(index, text):
                entry = calls.setdefault(index, {"index": index, "function": {"arguments": ""}})
                entry["function"]["arguments"] += text
    delta: Json = {"content": said} if said else {}
    if thought:
        delta["reasoning_content"] = thought
    if calls:
        delta["tool_calls"] = list(calls.values())
    return delta


def _call(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
