"""Forebay's own runtime: the arguments, probes and metrics that tests/contract holds it to."""

from __future__ import annotations

from forebay_operator.engines import options
from forebay_operator.program import PORT, RUNTIME, MetricNames, Program
from forebay_operator.resource import Spec

METRICS = MetricNames(
    "vllm:num_requests_waiting",
    "vllm:num_requests_running",
    "vllm:generation_tokens_total",
    "vllm:time_to_first_token_seconds",
)
LOADING_SECONDS = 86_400  # a model may load as long as its bytes come: a load that stands still ends by itself
KV_DTYPES = {"bf16": "bfloat16", "f32": "float32", "int8": "int8"}


def program(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> Program:
    """It finishes its requests on SIGTERM, for as long as --drain-grace says."""
    return Program(
        command=RUNTIME,
        serve=serve_arguments(spec, model_names, drain_seconds),
        probes=options.probes("/ready", "/health", LOADING_SECONDS),
    )


def refusals(spec: Spec) -> list[str]:
    """Beside what the CRD's rules refuse."""
    on_gpus = options.gpus(spec) > 0
    kv = spec.engine.kv_cache.dtype
    fields = {
        "engine.quantization: int4 (only on CPUs)": on_gpus and spec.engine.quantization == "int4",
        **options.unknown_kv_dtype(spec, KV_DTYPES),
        f"engine.kvCache.dtype: {kv} (only on CPUs)": on_gpus and kv in ("f32", "int8"),
        **options.no_parallelism(spec),
    }
    return options.unheard(spec, fields)


def serve_arguments(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> tuple[str, ...]:
    """Arguments of `forebay-runtime` that serve the model as the spec says. The user's own come last and win."""
    engine, limits = spec.engine, spec.engine.limits
    speculative = engine.speculative
    named: dict[str, object | None] = {
        "--host": "0.0.0.0",
        "--port": PORT,
        "--served-model-name": model_names,
        "--device": "cuda" if options.gpus(spec) else "cpu",
        "--quantization": engine.quantization,
        "--prefix-caching": "on" if engine.prefix_caching else "off",
        "--speculative": speculative.method,
        "--num-speculative-tokens": speculative.num_tokens if speculative.method != "none" else None,
        "--max-model-len": spec.model.context_length,
        "--max-num-seqs": limits.max_num_seqs,
        "--max-num-batched-tokens": limits.max_num_batched_tokens,
        "--max-num-waiting": limits.max_num_waiting,
        "--kv-cache-dtype": options.kv_dtype(spec, KV_DTYPES),
        "--kv-cache-memory": limits.kv_cache_memory,
        "--drain-grace": drain_seconds,
    }
    return ("serve", options.model_path(spec), *options.given(named), *engine.args)
