"""A small language to say what a scheduler is given and what it should do: names, lengths, counts."""

from __future__ import annotations

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.scheduler import Scheduler
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import SampledTokens, SequenceOutput, Step, StepResult


class Scene:
    """Sequences by one-letter names; every sampled token is 0, or what `step(tokens=...)` says."""

    def __init__(
        self,
        blocks: int = 64,
        block_size: int = 4,
        budget: int = 16,
        seqs: int = 8,
        waiting: int = 8,
        context: int = 1000,
        prefix_caching: bool = False,
    ) -> None:
        self.scheduler = Scheduler(
            SchedulerConfig(
                max_num_seqs=seqs,
                max_num_batched_tokens=budget,
                max_num_waiting=waiting,
                max_model_len=context,
                block_size=block_size,
                num_blocks=blocks,
                prefix_caching=prefix_caching,
            )
        )
        self.outputs: list[SequenceOutput] = []

    def add(
        self, name: str, prompt: int | list[int], max_tokens: int = 100, salt: str = "", priority: int = 0
    ) -> Sequence:
        """A prompt given as a length shares no block with any other."""
        tokens = [1000 * ord(name) + i for i in range(prompt)] if isinstance(prompt, int) else prompt
        request = Request(
            name, tuple(tokens), SamplingParams(max_tokens=max_tokens), cache_salt=salt, priority=priority
        )
        return self.scheduler.add(request)

    def schedule(self, drafts: dict[str, list[int]] | None = None) -> Step:
        step = self.scheduler.schedule(drafts or {})
        self.scheduler.check_integrity()
        return step

    def step(
        self, drafts: dict[str, list[int]] | None = None, tokens: dict[str, list[int]] | None = None
    ) -> dict[str, int]:
        """One whole step; how many known tokens each sequence ran."""
        step = self.schedule(drafts)
        sampled = tuple(
            SampledTokens(tuple((tokens or {}).get(s.sequence.request_id, [0]))) if s.samples else SampledTokens()
            for s in step.sequences
        )
        self.outputs = self.scheduler.update(step, StepResult(sampled))
        self.scheduler.check_integrity()
        return {s.sequence.request_id: s.num_new_tokens for s in step.sequences}
