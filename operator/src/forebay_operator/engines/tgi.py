"""Text Generation Inference: `text-generation-launcher`. It answers to any model name; SIGTERM drops what runs."""

from __future__ import annotations

from forebay_operator.engines import options
from forebay_operator.program import PORT, MetricNames, Program
from forebay_operator.resource import Spec

METRICS = MetricNames("tgi_queue_size", "tgi_batch_current_size", None, None)
OWN = ("hostname", "port", "model-id", "api-key", "num-shard", "sharded")
KV_DTYPES = {"fp8": "fp8_e4m3fn"}


def program(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> Program:
    engine, limits = spec.engine, spec.engine.limits
    named: dict[str, object | None] = {
        "--model-id": options.model_path(spec),
        "--hostname": "0.0.0.0",
        "--port": PORT,
        "--num-shard": options.tensor(spec),
        "--kv-cache-dtype": options.kv_dtype(spec, KV_DTYPES),
        "--max-total-tokens": spec.model.context_length,
        "--max-batch-size": limits.max_num_seqs,
        "--speculate": engine.speculative.num_tokens if engine.speculative.method != "none" else None,
    }
    return Program(
        command=("text-generation-launcher",),
        serve=(*options.given(named), *engine.args),
        probes=options.probes("/health", "/health"),
        held_back_by=(METRICS.waiting, METRICS.running),
        env={**options.WRITABLE, "HUGGINGFACE_HUB_CACHE": "/tmp/hub"},
        shared_memory=True,
    )


def refusals(spec: Spec) -> list[str]:
    limits = spec.engine.limits
    fields = {
        "model.file": spec.model.file is not None,
        **options.no_quantization(spec),
        **options.unknown_kv_dtype(spec, KV_DTYPES),
        **options.no_pipeline(spec),
        **options.one_node(spec),
        **options.unequal_parallelism(spec),
        "engine.prefixCaching: false": not spec.engine.prefix_caching,
        "engine.limits.maxNumBatchedTokens": limits.max_num_batched_tokens is not None,
        "engine.limits.maxNumWaiting": limits.max_num_waiting is not None,
        "engine.limits.kvCacheMemory": limits.kv_cache_memory is not None,
    }
    return [*options.unheard(spec, fields), *options.own_arguments(spec, OWN)]
