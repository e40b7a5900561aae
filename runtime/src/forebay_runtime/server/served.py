"""What the server serves."""

from __future__ import annotations

from dataclasses import dataclass

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.engine import Engine
from forebay_runtime.server.adapters.registry import AdapterRegistry
from forebay_runtime.text.chat import ChatTemplate
from forebay_runtime.text.grammar import GrammarCompiler
from forebay_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Computing:
    """What computes: `kernels` is an instruction set of the native ones, or torch."""

    kernels: str
    quantization: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the model is, in tokens and parameters, and what it takes, in bytes. `other_bytes`: of this process's own
    memory, beside weights and KV cache. `context`: of what is served; `model_context`: of what the model could.
    """

    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    kv_bytes: int
    kv_dtype: str
    other_bytes: int
    context: int
    model_context: int


@dataclass(frozen=True, slots=True)
class Served:
    """One loaded model, ready to be asked. `vocab_size` counts the rows of its embedding."""

    engine: Engine
    tokenizer: Tokenizer
    template: ChatTemplate | None
    scheduler: SchedulerConfig
    vocab_size: int
    version: str
    computing: Computing
    footprint: Footprint
    grammars: GrammarCompiler
    adapters: AdapterRegistry
