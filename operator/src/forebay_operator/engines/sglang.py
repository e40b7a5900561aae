"""SGLang: `python3 -m sglang.launch_server`. It finishes its requests on SIGTERM; metrics have to be asked for."""

from __future__ import annotations

from forebay_operator.engines import options
from forebay_operator.program import LEADER, PORT, RANK, MetricNames, Program
from forebay_operator.resource import Spec

METRICS = MetricNames(
    "sglang:num_queue_reqs",
    "sglang:num_running_reqs",
    "sglang:generation_tokens_total",
    "sglang:time_to_first_token_seconds",
)
OWN = (
    "host",
    "port",
    "model",
    "model-path",
    "served-model-name",
    "enable-metrics",
    "api-key",
    "tp",
    "tp-size",
    "pp-size",
    "nnodes",
    "node-rank",
    "dist-init-addr",
)
KV_DTYPES = {"bf16": "bfloat16", "fp8": "fp8_e4m3"}
MEETING_PORT = 20000


def program(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> Program:
    engine, limits = spec.engine, spec.engine.limits
    drafts = engine.speculative.method != "none"
    named: dict[str, object | None] = {
        "--model-path": options.model_path(spec),
        "--host": "0.0.0.0",
        "--port": PORT,
        "--served-model-name": model_names[0],
        "--enable-metrics": True,
        "--tp-size": options.tensor(spec),
        "--pp-size": options.stages(spec),
        "--context-length": spec.model.context_length,
        "--max-running-requests": limits.max_num_seqs,
        "--max-queued-requests": limits.max_num_waiting,
        "--kv-cache-dtype": options.kv_dtype(spec, KV_DTYPES),
        "--disable-radix-cache": not engine.prefix_caching,
        "--speculative-algorithm": "NGRAM" if drafts else None,
        "--speculative-num-draft-tokens": engine.speculative.num_tokens if drafts else None,
    }
    group = _group(spec) if engine.parallelism.nodes > 1 else {}
    words = (*options.given(named | group), *engine.args)
    return Program(
        command=("python3", "-m", "sglang.launch_server"),
        serve=words,
        join=words if group else (),  # the others know by their rank that they do not serve
        probes=options.probes("/health", "/health"),
        env=options.WRITABLE,
        shared_memory=True,
    )


def refusals(spec: Spec) -> list[str]:
    limits = spec.engine.limits
    fields = {
        **options.one_name(spec),
        **options.no_quantization(spec),
        **options.unknown_kv_dtype(spec, KV_DTYPES),
        **options.unequal_parallelism(spec),
        "engine.limits.maxNumBatchedTokens": limits.max_num_batched_tokens is not None,
        "engine.limits.kvCacheMemory": limits.kv_cache_memory is not None,
    }
    return [*options.unheard(spec, fields), *options.own_arguments(spec, OWN)]


def _group(spec: Spec) -> dict[str, object]:
    return {
        "--nnodes": spec.engine.parallelism.nodes,
        "--node-rank": f"$({RANK})",
        "--dist-init-addr": f"$({LEADER}):{MEETING_PORT}",
    }
