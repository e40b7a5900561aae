"""Carries out a step: tokens in, sampled tokens out."""

from forebay_runtime.execution.runner import Runner

__all__ = ["Runner"]
