"""An engine on a loaded model, as the equalities of the serving types want it."""

from __future__ import annotations

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.drafting import NgramDrafter, StepTimes
from forebay_runtime.engine import Engine
from forebay_runtime.execution import Runner
from forebay_runtime.models import LoadedModel
from forebay_runtime.scheduling.scheduler import Scheduler

CONTEXT = 1024


def engine(
    model: LoadedModel,
    *,
    budget: int = 1024,
    seqs: int = 12,
    blocks: int = 400,
    block_size: int = 16,
    prefix: bool = False,
    num_drafts: int = 0,
) -> Engine:
    bounds = SchedulerConfig(
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        max_model_len=CONTEXT,
        block_size=block_size,
        num_blocks=blocks,
        prefix_caching=prefix,
    )
    drafter = NgramDrafter(num_drafts, StepTimes(row_cost=0.001)) if num_drafts else None
    return Engine(Scheduler(bounds), Runner(model, num_blocks=blocks, block_size=block_size), drafter)
