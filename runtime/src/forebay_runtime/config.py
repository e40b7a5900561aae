"""Frozen configuration of the runtime. Built by __main__ from argv and the environment; nothing below reads either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which weights, how held. `path`: a Hugging Face directory, or a .gguf file, or a directory that holds one."""

    path: str
    dtype: Literal["auto", "bfloat16", "float16", "float32", "float64"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    quantization: Literal["none", "int8"] = "none"
    max_model_len: int | None = None  # tokens; None: the model's own
    threads: int | None = None  # None: the CPU quota


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
    drain_grace: float = 30.0
    stall_budget: float = 60.0
    max_body_bytes: int = 8 << 20
