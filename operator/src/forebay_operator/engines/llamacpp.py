"""llama.cpp: `llama-server`. One GGUF file; the context is shared out over the slots; SIGTERM drops what runs."""

from __future__ import annotations

from forebay_operator.engines import options
from forebay_operator.program import PORT, MetricNames, Program
from forebay_operator.resource import Spec

METRICS = MetricNames("llamacpp:requests_deferred", "llamacpp:requests_processing", None, None)
OWN = ("host", "port", "m", "model", "a", "alias", "metrics", "api-key", "np", "parallel", "c", "ctx-size")
KV_DTYPES = {"bf16": "bf16", "f32": "f32", "int8": "q8_0"}
SLOTS = 4  # where the spec does not say how many sequences run at once


def program(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> Program:
    engine, limits = spec.engine, spec.engine.limits
    slots = limits.max_num_seqs or SLOTS
    named: dict[str, object | None] = {
        "--model": options.model_path(spec),
        "--alias": model_names[0],
        "--host": "0.0.0.0",
        "--port": PORT,
        "--parallel": slots,
        "--ctx-size": spec.model.context_length * slots if spec.model.context_length else None,
        "--cache-type-k": options.kv_dtype(spec, KV_DTYPES),
        "--cache-type-v": options.kv_dtype(spec, KV_DTYPES),
        "--batch-size": limits.max_num_batched_tokens,
        "--n-gpu-layers": 999 if options.gpus(spec) else None,
    }
    words = [word for name, value in named.items() if value is not None for word in (name, str(value))]
    return Program(
        command=("llama-server",),
        serve=(*words, "--metrics", "--jinja", *engine.args),  # it knows no --name=value
        probes=options.probes("/health", "/health"),
        held_back_by=(METRICS.waiting, METRICS.running),
        env=options.WRITABLE,
    )


def refusals(spec: Spec) -> list[str]:
    limits = spec.engine.limits
    fields = {
        "model.file (it is needed: the GGUF file within the source)": spec.model.file is None,
        **options.one_name(spec),
        **options.no_quantization(spec),
        **options.unknown_kv_dtype(spec, KV_DTYPES),
        **options.no_parallelism(spec),
        "engine.prefixCaching: false": not spec.engine.prefix_caching,
        "engine.speculative": spec.engine.speculative.method != "none",
        "engine.limits.maxNumWaiting": limits.max_num_waiting is not None,
        "engine.limits.kvCacheMemory": limits.kv_cache_memory is not None,
    }
    return [*options.unheard(spec, fields), *options.own_arguments(spec, OWN)]
