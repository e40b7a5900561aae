"""A prompt through a loaded model in one step, with a cache of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from forebay_runtime.execution import Runner
from forebay_runtime.models import LoadedModel
from forebay_runtime.request import Pooling, Request, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence as TokenSequence
from forebay_runtime.scheduling.step import ScheduledSequence, Step

BLOCK_SIZE = 16


def make_sequence(
    token_ids: Sequence[int],
    *,
    first_block: int = 1,
    num_blocks: int | None = None,
    sampling: SamplingParams | None = None,
    num_prompt_tokens: int | None = None,
    eos_token_ids: frozenset[int] = frozenset(),
    pooling: Pooling | None = None,
) -> TokenSequence:
    """Its blocks lie in descending order from the end of its share, so that no kernel may count on a run."""
    wanted = num_blocks or -(-len(token_ids) // BLOCK_SIZE)
    prompt = tuple(token_ids[:num_prompt_tokens])
    return TokenSequence(
        request=Request("r", prompt, sampling or SamplingParams(temperature=0.0), eos_token_ids, pooling=pooling),
        token_ids=list(token_ids),
        num_prompt_tokens=len(prompt),
        block_table=list(reversed(range(first_block, first_block + wanted))),
    )


def logits_of(loaded: LoadedModel, prompt: Sequence[int]) -> torch.Tensor:
    """(tokens, V): of every token of the prompt, given as the last token and drafts after it."""
    sequence = make_sequence(prompt[:1], num_blocks=-(-len(prompt) // BLOCK_SIZE))
    step = Step((ScheduledSequence(sequence, 1, tuple(prompt[1:])),))
    runner = Runner(loaded, num_blocks=len(sequence.block_table) + 1, block_size=BLOCK_SIZE)
    with torch.inference_mode():
        return runner.model.logits(step.sequences).clone()
