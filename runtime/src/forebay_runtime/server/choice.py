"""One output being made: the engine's tokens in, the client's text out, cut by the same rule streamed or not."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from forebay_runtime.request import FinishReason, RequestOutput, TokenLogprobs
from forebay_runtime.text.answer import AnswerParser, CallBegun, Piece
from forebay_runtime.text.detokenizer import Detokenizer
from forebay_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LogprobRow:
    """A token that is shown. `start`: where its text begins in the output, in characters."""

    token_id: int
    start: int
    logprobs: TokenLogprobs


class Choice:
    """Collects what `take_text` or `take_pieces`, and `take_rows`, hand on."""

    def __init__(
        self,
        index: int,
        prompt_index: int,
        tokenizer: Tokenizer,
        detokenizer: Detokenizer,
        parser: AnswerParser,
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        self.index = index
        self.prompt_index = prompt_index
        self._tokenizer = tokenizer
        self._detokenizer = detokenizer
        self._parser = parser
        hidden = tokenizer.special_ids if skip_special_tokens else frozenset()
        self._skipped = hidden - tokenizer.ids_of(parser.markers)
        self._num_calls = 0
        self._logprobs_sum = 0.0
        self._text: list[str] = []
        self._rows: list[LogprobRow] = []
        self._starts: list[int] = []  # of each shown token, in characters
        self.num_tokens = 0
        self.num_cached_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.error = ""
        self.last_token_at: float | None = None  # for metrics

    def add(self, output: RequestOutput) -> int:
        """Takes in one step's output and returns how many of its tokens count: none after a stop string."""
        before = self.num_tokens
        self.num_cached_tokens = output.num_cached_tokens
        ends = output.finish_reason is FinishReason.STOP  # its last token ends the output and is not shown
        for i, token_id in enumerate(output.token_ids):
            self.num_tokens += 1
            if output.logprobs:
                self._logprobs_sum += output.logprobs[i].logprob
            if ends and i == len(output.token_ids) - 1:
                break
            self._show(token_id, output.logprobs[i] if output.logprobs else None)
            if self._detokenizer.stopped:
                self.finish_reason = FinishReason.STOP
                return self.num_tokens - before
        if output.finish_reason is not None:
            self.finish_reason, self.error = output.finish_reason, output.error
            self._text.append(self._detokenizer.finish())
        return self.num_tokens - before

    def take_text(self) -> str:
        """What has become certain since the last call."""
        text = "".join(self._text)
        self._text.clear()
        return text

    def take_pieces(self) -> list[Piece]:
        """What has become certain since the last call, told apart. Not together with `take_text`."""
        pieces = self._parser.push(self.take_text())
        if self.finish_reason is not None:
            pieces += self._parser.finish()
        self._num_calls += sum(isinstance(piece, CallBegun) for piece in pieces)
        return pieces

    @property
    def num_reasoning_tokens(self) -> int:
        """Those of thoughts and of the marks around them, as far as pieces have been taken."""
        return bisect_left(self._starts, self._parser.thought_end)

    @property
    def mean_logprob(self) -> float:
        """Of all its tokens; 0 where logprobs were not asked for."""
        return self._logprobs_sum / max(1, self.num_tokens)

    @property
    def reason(self) -> str:
        """finish_reason as OpenAI puts it; known once the last pieces have been taken."""
        if self.finish_reason is FinishReason.STOP and self._num_calls:
            return "tool_calls"
        return (self.finish_reason or FinishReason.ERROR).value

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the output."""
        return self._detokenizer.stop_string

    def take_rows(self) -> list[LogprobRow]:
        """The logprobs of the text that has become certain, each token once."""
        released = self._detokenizer.num_released
        if self.finish_reason is not None and not self._detokenizer.stopped:
            released = self._detokenizer.num_chars + 1
        count = next((i for i, row in enumerate(self._rows) if row.start >= released), len(self._rows))
        rows, self._rows = self._rows[:count], self._rows[count:]
        return rows

    def _show(self, token_id: int, logprobs: TokenLogprobs | None) -> None:
        data = b"" if token_id in self._skipped else self._tokenizer.token_bytes(token_id)
        start = self._detokenizer.start_of(data)
        self._starts.append(start)
        if logprobs is not None:
            self._rows.append(LogprobRow(token_id, start, logprobs))
        text = self._detokenizer.push(data)
        if text:
            self._text.append(text)
