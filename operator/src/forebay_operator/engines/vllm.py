"""vLLM: `vllm serve`. It finishes its requests on SIGTERM only with --shutdown-timeout."""

from __future__ import annotations

import json

from forebay_operator.engines import forebay, options
from forebay_operator.program import LEADER, PORT, RANK, Program
from forebay_operator.quantity import whole
from forebay_operator.resource import Spec

METRICS = forebay.METRICS
OWN = (
    "host",
    "port",
    "model",
    "served-model-name",
    "shutdown-timeout",
    "api-key",
    "tensor-parallel-size",
    "tp",
    "pipeline-parallel-size",
    "pp",
    "nnodes",
    "node-rank",
    "master-addr",
    "headless",
)
KV_DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}


def program(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> Program:
    engine, limits = spec.engine, spec.engine.limits
    named: dict[str, object | None] = {
        "--host": "0.0.0.0",
        "--port": PORT,
        "--served-model-name": model_names[0] if len(model_names) == 1 else None,
        "--tensor-parallel-size": options.tensor(spec),
        "--pipeline-parallel-size": options.stages(spec),
        "--max-model-len": spec.model.context_length,
        "--max-num-seqs": limits.max_num_seqs,
        "--max-num-batched-tokens": limits.max_num_batched_tokens,
        "--kv-cache-dtype": options.kv_dtype(spec, KV_DTYPES),
        "--kv-cache-memory-bytes": whole(limits.kv_cache_memory) if limits.kv_cache_memory else None,
        "--enable-prefix-caching": engine.prefix_caching,
        "--no-enable-prefix-caching": not engine.prefix_caching,
        "--speculative-config": _speculative(spec),
        "--shutdown-timeout": drain_seconds,
    }
    several = ("--served-model-name", *model_names) if len(model_names) > 1 else ()
    group = _group(spec) if engine.parallelism.nodes > 1 else {}
    words = (options.model_path(spec), *several, *options.given(named | group), *engine.args)
    return Program(
        command=("vllm", "serve"),
        serve=words,
        join=(*words, "--headless") if group else (),
        probes=options.probes("/health", "/health"),
        env=options.WRITABLE,
        shared_memory=True,
    )


def refusals(spec: Spec) -> list[str]:
    fields = {
        "model.aliases: names that begin with -": any(name.startswith("-") for name in spec.model.aliases),
        **options.no_quantization(spec),
        **options.unknown_kv_dtype(spec, KV_DTYPES),
        **options.unequal_parallelism(spec),
        "engine.limits.maxNumWaiting": spec.engine.limits.max_num_waiting is not None,
    }
    return [*options.unheard(spec, fields), *options.own_arguments(spec, OWN)]


def _group(spec: Spec) -> dict[str, object]:
    return {
        "--nnodes": spec.engine.parallelism.nodes,
        "--node-rank": f"$({RANK})",
        "--master-addr": f"$({LEADER})",
    }


def _speculative(spec: Spec) -> str | None:
    speculative = spec.engine.speculative
    if speculative.method == "none":
        return None
    count = speculative.num_tokens
    return json.dumps({"method": "ngram", "num_speculative_tokens": count, "prompt_lookup_max": 4})
