"""Forebay's own runtime: the arguments, probes and metrics that tests/contract holds it to."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from forebay_operator.program import Program
from forebay_operator.resource import Spec

COMMAND = ("forebay-runtime",)
PORT = 8000
MODEL_DIRECTORY = "/model"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
GPUS = ("nvidia.com/", "amd.com/")
LOADING_SECONDS = 3600  # the longest that a model may take to load before its container is started again
STALLED_GRACE = 10  # seconds: an engine whose steps do not end has nothing to finish


def program(spec: Spec, model_name: str, drain_seconds: int) -> Program:
    return Program(
        command=COMMAND,
        serve=serve_arguments(spec, model_name, drain_seconds),
        fetch=("fetch", spec.model.source, MODEL_DIRECTORY),
        port=PORT,
        model_directory=MODEL_DIRECTORY,
        probes=probes(),
    )


def serve_arguments(spec: Spec, model_name: str, drain_seconds: int) -> tuple[str, ...]:
    """Arguments of `forebay-runtime` that serve the model as the spec says. The user's own come last and win."""
    engine, limits = spec.engine, spec.engine.limits
    speculative = engine.speculative
    options: dict[str, object | None] = {
        "--host": "0.0.0.0",
        "--port": PORT,
        "--served-model-name": model_name,
        "--device": _device(spec),
        "--quantization": engine.quantization,
        "--prefix-caching": "on" if engine.prefix_caching else "off",
        "--speculative": speculative.method,
        "--num-speculative-tokens": speculative.num_tokens if speculative.method != "none" else None,
        "--max-model-len": spec.model.context_length,
        "--max-num-seqs": limits.max_num_seqs,
        "--max-num-batched-tokens": limits.max_num_batched_tokens,
        "--max-num-waiting": limits.max_num_waiting,
        "--kv-cache-memory": limits.kv_cache_memory,
        "--drain-grace": drain_seconds,
    }
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    return ("serve", MODEL_DIRECTORY, *given, *engine.args)


def _device(spec: Spec) -> str:
    asked = {**spec.resources.requests, **spec.resources.limits}
    return "cuda" if any(name.startswith(GPUS) for name in asked) else "cpu"


def probes() -> dict[str, Any]:
    """Ready is noticed within a second; a model may take long to load; a stalled engine is started again, without the
    grace that a pod has for finishing its requests."""
    ready, alive = {"path": "/ready", "port": "http"}, {"path": "/health", "port": "http"}
    restart = {"terminationGracePeriodSeconds": STALLED_GRACE}
    return {
        "startupProbe": {
            "httpGet": ready,
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": LOADING_SECONDS,
            **restart,
        },
        "readinessProbe": {"httpGet": ready, "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 2},
        "livenessProbe": {"httpGet": alive, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3, **restart},
    }


def in_flight(metrics: str) -> int:
    """Requests that the engine has taken and not ended. ValueError where the metrics do not tell."""
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name in (RUNNING, WAITING)
    }
    if found.keys() != {RUNNING, WAITING}:
        raise ValueError(f"no {RUNNING} and {WAITING} among the metrics")
    return int(sum(found.values()))
