"""Frozen configuration. arguments.py builds it from argv and the environment; no one else reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MIB = 1 << 20
SMALLEST_CONTEXT = 512  # tokens; a model cut to less than that by memory isn't worth serving


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which weights, how held. `path`: a Hugging Face directory, or a .gguf file, or a directory that holds one."""

    path: str
    dtype: Literal["auto", "bfloat16", "float16", "float32", "float64"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    quantization: Literal["auto", "none", "int8", "int4"] = "auto"  # auto: int8 by the native kernels, else none
    kv_cache_dtype: Literal["auto", "bfloat16", "float32", "int8"] = "auto"  # auto: of weights that aren't quantized
    kernels: Literal["auto", "native", "torch"] = "auto"  # auto: native on a CPU, where they were built
    max_model_len: int | None = None  # tokens; None: the model's own
    threads: int | None = None  # None: the CPU quota


@dataclass(frozen=True, slots=True)
class AdapterOptions:
    """LoRA adapters: `at_start` by name, and the bounds of all."""

    at_start: tuple[tuple[str, str], ...] = ()
    max_rank: int = 64
    most: int = 64  # at a time


NO_ADAPTERS = AdapterOptions()


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Bounds of one step and of admission. Counts are tokens, sequences and blocks."""

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    max_num_waiting: int = 256
    max_model_len: int = 2048
    block_size: int = 16
    num_blocks: int = 1024
    prefix_caching: bool = True
    num_speculative_tokens: int = 0  # 0: no speculation


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The HTTP side. Times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8000
    served_names: tuple[str, ...] = ()
    api_key: str | None = None
    tool_call_parser: str | None = None  # by name, see text/tool_formats.py; None: what the chat template teaches
    reasoning: bool | None = None  # thoughts are told from what is said; None: if the chat template knows them
    drain_grace: float = 30.0
    stall_budget: float = 60.0
    load_budget: float = 300.0  # without a byte of the model read while it is loaded
    max_body_bytes: int = 8 << 20
    request_timeout: float | None = None  # for a whole answer; None: as long as it takes
    strict_fields: bool = False  # fields that nobody reads are refused
    pooling: Literal["mean", "last"] = "mean"  # of embeddings, where the request doesn't say
    lora_root: Path | None = None  # below which requests may load adapters from; None: they may not


class ConfigError(ValueError):
    """The options and the machine don't go together. The message is one line: what, the numbers, what to change."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """What the arguments ask for; None leaves the choice to `resolve`."""

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_waiting: int = 256
    block_size: int = 16
    kv_cache_memory: int | None = None  # bytes
    prefix_caching: bool = True
    num_speculative_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What model and machine give. `memory` and `cpus` are what this process may have: its cgroup's, if smaller."""

    context: int  # tokens, the model's own
    kv_bytes_per_token: int
    block_multiple: int  # of tokens
    memory: int  # bytes still available once the weights are loaded: of the device that holds the KV cache
    cpus: float
    accelerator: bool  # the KV cache is in a GPU's memory, which nothing else shares


def resolve(options: SchedulerOptions, capacity: Capacity) -> SchedulerConfig:
    """The scheduler's bounds. ConfigError, with the numbers, where what is asked can't be had.

    A context that wasn't asked for is cut to what memory holds; one that was is refused instead.
    """
    _check_counts(options)
    max_num_seqs = options.max_num_seqs or (256 if capacity.accelerator else 64)
    max_num_batched_tokens = options.max_num_batched_tokens or _default_budget(capacity, max_num_seqs)
    if max_num_batched_tokens < max_num_seqs:
        raise ConfigError(
            f"--max-num-batched-tokens {max_num_batched_tokens} is less than --max-num-seqs {max_num_seqs}: each "
            "running sequence needs one token in a step; raise the former or lower the latter"
        )
    asked = options.max_model_len
    if asked is not None and asked > capacity.context:
        raise ConfigError(
            f"--max-model-len {asked} is more than the model's own context of {capacity.context} tokens; "
            f"ask for {capacity.context} at most"
        )
    if options.block_size % capacity.block_multiple:
        raise ConfigError(
            f"--block-size {options.block_size} is no multiple of {capacity.block_multiple}, in which the native "
            "kernels keep the KV cache; choose one that is, or --kernels torch"
        )
    block_bytes = options.block_size * capacity.kv_bytes_per_token
    wanted = -(-(asked or capacity.context) // options.block_size)
    num_blocks = _kv_bytes(options, capacity, wanted * block_bytes) // block_bytes
    context = min(asked or capacity.context, num_blocks * options.block_size)
    if context < (asked or min(capacity.context, SMALLEST_CONTEXT)):
        raise ConfigError(_too_long(asked or min(capacity.context, SMALLEST_CONTEXT), context, options, capacity))
    # More blocks than every sequence could fill are of use only to remember prefixes, and as many again are plenty.
    usable = max_num_seqs * -(-context // options.block_size) * (2 if options.prefix_caching else 1)
    return SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_waiting=options.max_num_waiting,
        max_model_len=context,
        block_size=options.block_size,
        num_blocks=min(num_blocks, usable),
        prefix_caching=options.prefix_caching,
        num_speculative_tokens=options.num_speculative_tokens,
    )


def _check_counts(options: SchedulerOptions) -> None:
    for name, least in (
        ("max_model_len", 2),
        ("max_num_seqs", 1),
        ("max_num_batched_tokens", 1),
        ("max_num_waiting", 0),
        ("block_size", 1),
        ("kv_cache_memory", 1),
        ("num_speculative_tokens", 0),
    ):
        value = getattr(options, name)
        if value is not None and value < least:
            raise ConfigError(f"--{name.replace('_', '-')} {value} is less than {least}")


def _default_budget(capacity: Capacity, max_num_seqs: int) -> int:
    """A step stays short enough for the decodes that share it: a CPU computes some hundred prompt tokens a second."""
    tokens = 4096 if capacity.accelerator else min(max(128 * int(capacity.cpus), 128), 1024)
    return max(tokens, max_num_seqs)


def _kv_bytes(options: SchedulerOptions, capacity: Capacity, one_context: int) -> int:
    """Memory for the KV cache. On a GPU nine tenths of what is left. On a CPU, where others live off the same memory,
    two fifths and no more than 1 GiB, unless one sequence of the whole context needs more: then all of the two fifths,
    and four fifths where that context was asked for.
    """
    if options.kv_cache_memory is not None:
        if options.kv_cache_memory > capacity.memory:
            raise ConfigError(
                f"--kv-cache-memory asks for {_mib(options.kv_cache_memory)}, but {_mib(capacity.memory)} are "
                "available besides the weights; ask for less or give the process more memory"
            )
        return options.kv_cache_memory
    if capacity.accelerator:
        return capacity.memory * 9 // 10
    fifth = capacity.memory // 5
    most = 2 * fifth if options.max_model_len is None else 4 * fifth
    return max(min(2 * fifth, 1024 * MIB), min(one_context, most))


def _too_long(needed: int, fits: int, options: SchedulerOptions, capacity: Capacity) -> str:
    given = "--kv-cache-memory" if options.kv_cache_memory is not None else "the available memory"
    return (
        f"a context of {needed} tokens needs {_mib(needed * capacity.kv_bytes_per_token)} of KV cache "
        f"({capacity.kv_bytes_per_token} bytes a token), but {given} holds {fits} tokens of the "
        f"{_mib(capacity.memory)} that are left besides the weights; "
        f"lower --max-model-len to {fits} or give the process more memory"
    )


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / MIB:.1f} MiB"
