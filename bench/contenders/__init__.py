"""Who takes part: ours at each width, llama.cpp in its formats, what a newcomer would write, vLLM where installed."""

from __future__ import annotations

from bench.cases import Contender
from bench.contenders import forebay, llama_cpp, newcomer, vllm_cpu
from bench.models import Model

NAMES = ("forebay-int8", "forebay-int4", "forebay-bf16", "llama-q8_0", "llama-q4_0", "newcomer")
WHERE_INSTALLED = ("vllm",) if vllm_cpu.COMMAND.exists() else ()


def contender(name: str, model: Model, threads: int) -> Contender:
    maker, _, kind = name.partition("-")
    match maker:
        case "forebay":
            return forebay.Forebay(name, model.bf16, kind, threads)
        case "llama":
            return llama_cpp.LlamaCpp(name, model, kind.upper(), threads)
        case "newcomer":
            return newcomer.Newcomer(name, model, threads)
        case "vllm":
            return vllm_cpu.VllmCpu(name, model, threads)
    raise ValueError(f"there is no contender {name!r}: {', '.join(NAMES)}")
