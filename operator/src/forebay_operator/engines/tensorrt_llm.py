"""TensorRT-LLM: `trtllm-serve`. Its Prometheus page is not /metrics; SIGTERM drops what runs."""

from __future__ import annotations

from forebay_operator.engines import options
from forebay_operator.program import PORT, MetricNames, Program
from forebay_operator.resource import Spec

METRICS = MetricNames(
    "trtllm_num_requests_waiting",
    "trtllm_num_requests_running",
    "trtllm_generation_tokens_total",
    "trtllm_time_to_first_token_seconds",
)
OWN = ("host", "port", "served-model-name", "tp-size", "pp-size")


def program(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> Program:
    engine, limits = spec.engine, spec.engine.limits
    named: dict[str, object | None] = {
        "--host": "0.0.0.0",
        "--port": PORT,
        "--served_model_name": model_names[0],
        "--tp_size": options.tensor(spec),
        "--pp_size": options.stages(spec),
        "--max_seq_len": spec.model.context_length,
        "--max_batch_size": limits.max_num_seqs,
        "--max_num_tokens": limits.max_num_batched_tokens,
    }
    return Program(
        command=("trtllm-serve",),
        serve=(options.model_path(spec), *options.given(named), *engine.args),
        probes=options.probes("/health", "/health"),
        held_back_by=(METRICS.waiting, METRICS.running),
        env=options.WRITABLE,
        shared_memory=True,
    )


def refusals(spec: Spec) -> list[str]:
    limits = spec.engine.limits
    fields = {
        "model.file": spec.model.file is not None,
        **options.one_name(spec),
        **options.no_quantization(spec),
        **options.unknown_kv_dtype(spec, {}),
        **options.one_node(spec),
        **options.unequal_parallelism(spec),
        "engine.prefixCaching: false": not spec.engine.prefix_caching,
        "engine.speculative": spec.engine.speculative.method != "none",
        "engine.limits.maxNumWaiting": limits.max_num_waiting is not None,
        "engine.limits.kvCacheMemory": limits.kv_cache_memory is not None,
        "scaling (its metrics are not on /metrics)": spec.scaling is not None,
    }
    return [*options.unheard(spec, fields), *options.own_arguments(spec, OWN)]
