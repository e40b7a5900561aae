"""What is refused when a request arrives, and with which words. Nothing is refused later."""

from __future__ import annotations

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.request import Request, RequestError


def check_fits(request: Request, config: SchedulerConfig) -> None:
    """RequestError 400 if the request can never run, however empty the engine is."""
    num_prompt = len(request.prompt_token_ids)
    if not num_prompt:
        raise RequestError("The prompt holds no tokens.", code="empty_prompt")
    if request.sampling.max_tokens < 1:
        raise RequestError(
            f"max_tokens is {request.sampling.max_tokens}, but an answer has at least 1 token.",
            code="invalid_value",
            param="max_tokens",
        )
    if num_prompt >= config.max_model_len:
        raise RequestError(
            f"This model's maximum context length is {config.max_model_len} tokens, but the prompt has {num_prompt} "
            "tokens and the answer needs at least 1. Please shorten the prompt.",
            code="context_length_exceeded",
        )
    capacity = config.num_blocks * config.block_size
    if num_prompt >= capacity:
        raise RequestError(
            f"The prompt has {num_prompt} tokens, but this server's KV cache holds {capacity} tokens in all, and the "
            "answer needs at least 1. Please shorten the prompt.",
            code="context_length_exceeded",
        )


def check_room(num_sequences: int, config: SchedulerConfig, retry_after: int) -> None:
    """RequestError 429 if as many run and wait as may: max_num_seqs and max_num_waiting together."""
    if num_sequences >= config.max_num_seqs + config.max_num_waiting:
        raise RequestError(
            f"The server is overloaded: {num_sequences} requests are running or waiting, which is its limit. "
            f"Please try again in {retry_after} s.",
            status=429,
            code="rate_limit_exceeded",
            retry_after=retry_after,
        )
