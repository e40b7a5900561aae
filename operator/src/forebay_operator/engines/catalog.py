"""The engines by the words of spec.engine.type. No I/O."""

from __future__ import annotations

from types import ModuleType

from forebay_operator.engines import forebay, llamacpp, sglang, tensorrt_llm, tgi, vllm
from forebay_operator.program import MetricNames, Program
from forebay_operator.resource import Spec

ENGINES: dict[str, ModuleType] = {
    "forebay": forebay,
    "vllm": vllm,
    "sglang": sglang,
    "llamacpp": llamacpp,
    "tgi": tgi,
    "tensorrt-llm": tensorrt_llm,
}


def program(spec: Spec, model_names: tuple[str, ...], drain_seconds: int) -> Program:
    found: Program = ENGINES[spec.engine.type].program(spec, model_names, drain_seconds)
    return found


def refusals(spec: Spec) -> list[str]:
    """Fields that the chosen engine cannot honour, each by its path; nothing is ignored."""
    found: list[str] = ENGINES[spec.engine.type].refusals(spec)
    blind = spec.scaling and spec.scaling.targets.ttft_p95 and metric_names(spec.engine.type).ttft is None
    return [*found, *(["spec.scaling.targets.ttftP95 (it does not tell the time to first token)"] if blind else [])]


def metric_names(type: str) -> MetricNames:
    """Of an engine that this version knows; a resource of another version is read as the default's."""
    found: MetricNames = ENGINES.get(type, forebay).METRICS
    return found
