"""vLLM: `vllm serve`. It finishes its requests on SIGTERM only with --shutdown-timeout."""

from __future__ import annotations

import json

from forebay_operator.engines import forebay, options
from forebay_operator.program import PORT, Program
from forebay_operator.quantity import whole
from forebay_operator.resource import Spec

METRICS = forebay.METRICS
OWN = ("host", "port", "model", "served-model-name", "shutdown-timeout", "api-key", "tensor-parallel-size", "tp")


def program(spec: Spec, model_name: str, drain_seconds: int) -> Program:
    engine, limits = spec.engine, spec.engine.limits
    named: dict[str, object | None] = {
        "--host": "0.0.0.0",
        "--port": PORT,
        "--served-model-name": model_name,
        "--tensor-parallel-size": options.shards(spec),
        "--max-model-len": spec.model.context_length,
        "--max-num-seqs": limits.max_num_seqs,
        "--max-num-batched-tokens": limits.max_num_batched_tokens,
        "--kv-cache-memory-bytes": whole(limits.kv_cache_memory) if limits.kv_cache_memory else None,
        "--enable-prefix-caching": engine.prefix_caching,
        "--no-enable-prefix-caching": not engine.prefix_caching,
        "--speculative-config": _speculative(spec),
        "--shutdown-timeout": drain_seconds,
    }
    return Program(
        command=("vllm", "serve"),
        serve=(options.model_path(spec), *options.given(named), *engine.args),
        probes=options.probes("/health", "/health"),
        pre_stop_seconds=options.PRE_STOP_SECONDS,
        env=options.WRITABLE,
        shared_memory=True,
    )


def refusals(spec: Spec) -> list[str]:
    fields = {
        **options.no_quantization(spec),
        "engine.limits.maxNumWaiting": spec.engine.limits.max_num_waiting is not None,
    }
    return [*options.unheard(spec, fields), *options.own_arguments(spec, OWN)]


def _speculative(spec: Spec) -> str | None:
    speculative = spec.engine.speculative
    if speculative.method == "none":
        return None
    count = speculative.num_tokens
    return json.dumps({"method": "ngram", "num_speculative_tokens": count, "prompt_lookup_max": 4})
