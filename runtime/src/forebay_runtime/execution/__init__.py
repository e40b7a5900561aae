"""Carries out a step: tokens in, sampled tokens out."""

from forebay_runtime.execution.kv_cache import num_blocks_for
from forebay_runtime.execution.runner import Runner

__all__ = ["Runner", "num_blocks_for"]
