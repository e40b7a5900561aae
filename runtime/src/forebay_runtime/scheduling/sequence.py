"""One token stream being generated: the unit of scheduling."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from forebay_runtime.request import Request


class SequenceStatus(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Sequence:
    """Mutable; owned by the scheduler. KV of tokens [0, num_computed_tokens) is written in block_table's blocks.

    Execution reads the first six fields; the rest is the scheduler's own book-keeping.
    """

    request: Request
    token_ids: list[int]  # prompt, then output
    num_prompt_tokens: int
    block_table: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0  # prompt tokens found in the prefix cache when first admitted
    status: SequenceStatus = SequenceStatus.WAITING

    max_num_tokens: int = 0  # prompt and output may not grow beyond
    stop_ids: frozenset[int] = frozenset()  # every token that ends it, eos included
    deadline: int = 0  # place in the queue, see waiting.py
    arrival_work: int = 0  # tokens the scheduler had handed out when this one arrived
    block_keys: list[bytes] = field(default_factory=list)  # hash chain over the full blocks of token_ids
    num_published_blocks: int = 0
    num_admissions: int = 0
    queue_seconds: float | None = None  # None until the first step
    pooled: list[float] = field(default_factory=list)  # sum over the computed tokens' hidden states, where wanted

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]
