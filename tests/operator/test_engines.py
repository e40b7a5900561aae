"""What each engine is told, cannot honour, and tells; the manifests themselves are pairs."""

from __future__ import annotations

from typing import Any

import pytest

from forebay_operator.cluster.pods import in_flight
from forebay_operator.config import Config
from forebay_operator.engines import catalog
from forebay_operator.metrics import scrape
from forebay_operator.metrics.window import NoData, Pod, window
from forebay_operator.observed import Observed
from forebay_operator.resource import Spec
from forebay_operator.resource.engine import Engine
from forebay_operator.sync import sync
from tests.operator.builders import NOW, SOURCE, resource, says

FOREIGN = sorted(set(catalog.ENGINES) - {"forebay"})
SCALING = {"maxReplicas": 2, "targets": {"ttftP95": "1s"}}
KV, NODES = {"kvCache": {"dtype": "f32"}}, {"parallelism": {"nodes": 2}}
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "vllm": [
        ({"limits": {"maxNumWaiting": 3}}, "spec.engine.limits.maxNumWaiting"),
        ({"kvCache": {"dtype": "int8"}}, "spec.engine.kvCache.dtype: int8"),
        ({"parallelism": {"nodes": 2}}, "spec.engine.parallelism: it needs 1 GPUs, resources give 2 nodes of 0 GPUs"),
    ],
    "sglang": [
        (KV, "spec.engine.kvCache.dtype: f32"),
        ({"limits": {"maxNumBatchedTokens": 3}}, "spec.engine.limits.maxNumBatchedTokens"),
        ({"limits": {"kvCacheMemory": "1Gi"}}, "spec.engine.limits.kvCacheMemory"),
    ],
    "llamacpp": [
        ({}, "spec.model.file"),
        ({"kvCache": {"dtype": "fp8"}}, "spec.engine.kvCache.dtype: fp8"),
        ({"parallelism": {"tensor": 2}}, "spec.engine.parallelism.tensor"),
        (NODES, "spec.engine.parallelism.nodes"),
        ({"prefixCaching": False}, "spec.engine.prefixCaching: false"),
        ({"speculative": {"method": "ngram"}}, "spec.engine.speculative"),
        ({"limits": {"maxNumWaiting": 3}}, "spec.engine.limits.maxNumWaiting"),
        ({"limits": {"kvCacheMemory": "1Gi"}}, "spec.engine.limits.kvCacheMemory"),
    ],
    "tgi": [
        (KV, "spec.engine.kvCache.dtype: f32"),
        ({"parallelism": {"pipeline": 2}}, "spec.engine.parallelism.pipeline"),
        (NODES, "spec.engine.parallelism.nodes"),
        ({"prefixCaching": False}, "spec.engine.prefixCaching: false"),
        ({"limits": {"maxNumBatchedTokens": 3}}, "spec.engine.limits.maxNumBatchedTokens"),
        ({"limits": {"maxNumWaiting": 3}}, "spec.engine.limits.maxNumWaiting"),
        ({"limits": {"kvCacheMemory": "1Gi"}}, "spec.engine.limits.kvCacheMemory"),
    ],
    "tensorrt-llm": [
        ({"kvCache": {"dtype": "fp8"}}, "spec.engine.kvCache.dtype: fp8"),
        (NODES, "spec.engine.parallelism.nodes"),
        ({"prefixCaching": False}, "spec.engine.prefixCaching: false"),
        ({"speculative": {"method": "ngram"}}, "spec.engine.speculative"),
        ({"limits": {"maxNumWaiting": 3}}, "spec.engine.limits.maxNumWaiting"),
        ({"limits": {"kvCacheMemory": "1Gi"}}, "spec.engine.limits.kvCacheMemory"),
    ],
}
REFUSED["forebay"] = [
    ({"kvCache": {"dtype": "fp8"}}, "spec.engine.kvCache.dtype: fp8"),
    ({"parallelism": {"tensor": 2}}, "spec.engine.parallelism.tensor"),
    ({"parallelism": {"pipeline": 2}}, "spec.engine.parallelism.pipeline"),
    (NODES, "spec.engine.parallelism.nodes"),
]
CASES = [(engine, fields, name) for engine, cases in REFUSED.items() for fields, name in cases]


def spec(engine: str, fields: dict[str, Any] | None = None, **parts: Any) -> Spec:
    found = resource(engine={"type": engine, **(fields or {})}, **parts).spec
    assert isinstance(found, Spec)
    return found


def test_the_catalog_has_each_word_of_the_spec() -> None:
    words = Engine.model_json_schema(by_alias=True)["properties"]["type"]["enum"]
    assert sorted(words) == sorted(catalog.ENGINES)


@pytest.mark.parametrize(("engine", "fields", "name"), CASES)
def test_a_field_that_an_engine_cannot_honour_is_refused_by_name(engine: str, fields: Any, name: str) -> None:
    assert [r for r in catalog.refusals(spec(engine, fields)) if r.startswith(name)]


@pytest.mark.parametrize("engine", FOREIGN)
def test_our_quantization_on_loading_is_ours_alone(engine: str) -> None:
    assert [r for r in catalog.refusals(spec(engine, {"quantization": "int8"})) if "quantization" in r]
    assert not catalog.refusals(spec("forebay", {"quantization": "int8"}))


@pytest.mark.parametrize("engine", ["sglang", "llamacpp", "tensorrt-llm"])
def test_aliases_are_refused_where_an_engine_has_one_name(engine: str) -> None:
    several = {"source": SOURCE, "aliases": ["other"]}
    assert [r for r in catalog.refusals(spec(engine, model=several)) if r == "spec.model.aliases"]


def test_gpus_that_parallelism_leaves_idle_or_that_are_not_there_are_refused() -> None:
    four = {"limits": {"nvidia.com/gpu": 4}}
    for asked in ({"tensor": 4}, {"pipeline": 2}, {"tensor": 2, "pipeline": 2}, {"nodes": 2}):
        assert not catalog.refusals(spec("vllm", {"parallelism": asked}, resources=four)), asked
    for asked in ({"tensor": 2}, {"tensor": 8}, {"pipeline": 3}, {"tensor": 4, "nodes": 2}):
        assert catalog.refusals(spec("vllm", {"parallelism": asked}, resources=four)), asked


def test_keys_and_values_are_kept_in_int8_or_f32_on_cpus_only() -> None:
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    for dtype in ("int8", "f32"):
        asked = {"kvCache": {"dtype": dtype}}
        assert catalog.refusals(spec("forebay", asked, resources=gpu)) == [
            f"spec.engine.kvCache.dtype: {dtype} (only on CPUs)"
        ]
        assert not catalog.refusals(spec("forebay", asked))


def test_int4_is_refused_on_gpus() -> None:
    on_gpus = spec("forebay", {"quantization": "int4"}, resources={"limits": {"nvidia.com/gpu": "1"}})
    assert catalog.refusals(on_gpus) == ["spec.engine.quantization: int4 (only on CPUs)"]
    assert not catalog.refusals(spec("forebay", {"quantization": "int4"}))


@pytest.mark.parametrize("engine", FOREIGN)
def test_what_the_operator_sets_itself_cannot_be_set_by_arguments(engine: str) -> None:
    flag = "--hostname=1" if engine == "tgi" else "--host=1"
    assert [r for r in catalog.refusals(spec(engine, {"args": [flag]})) if r == f"spec.engine.args: {flag}"]


@pytest.mark.parametrize("engine", ["llamacpp", "tgi"])
def test_a_latency_target_is_refused_where_the_engine_does_not_tell_it(engine: str) -> None:
    assert [r for r in catalog.refusals(spec(engine, scaling=SCALING)) if "ttftP95" in r]
    assert not catalog.refusals(spec("vllm", scaling=SCALING))


def test_a_refusal_is_a_condition_and_nothing_is_made() -> None:
    outcome = sync(resource(engine={"type": "vllm", "quantization": "int8"}), Observed(), Config("r:1", "o:1"), NOW)
    assert outcome.children is None
    assert says(outcome)["Accepted"] == ("False", "UnsupportedByEngine")
    outcome = sync(resource(engine={"type": "vllm"}), Observed(), Config("r:1", "o:1"), NOW)
    assert says(outcome)["Accepted"] == ("False", "NoEngineImage")


@pytest.mark.parametrize("engine", sorted(catalog.ENGINES))
def test_load_is_read_by_the_engines_own_names(engine: str) -> None:
    names = catalog.metric_names(engine)
    page = "".join(f"# TYPE {n} gauge\n{n} {v}\n" for n, v in ((names.waiting, 2), (names.running, 3)))
    assert in_flight(page, names) == 5
    found = scrape.parse(page + histogram(names.ttft) + counter(names.generated), 1.0, names)
    assert (found.waiting, found.running) == (2, 3)


def histogram(name: str | None) -> str:
    return f'# TYPE {name} histogram\n{name}_bucket{{le="+Inf"}} 0\n{name}_count 0\n{name}_sum 0\n' if name else ""


def counter(name: str | None) -> str:
    return f"# TYPE {name} counter\n{name} 0\n" if name else ""


def test_an_engine_that_does_not_tell_its_latency_gives_no_value_for_it() -> None:
    names = catalog.metric_names("tgi")
    page = f"{names.waiting} 2\n{names.running} 3\n"
    found = window([Pod("p", 0.0, [scrape.parse(page, 1.0, names)])], 2.0)
    assert isinstance(found["ttft_p95_ms"], NoData)
    assert not isinstance(found["queue_depth"], NoData)


@pytest.mark.parametrize("engine", FOREIGN)
def test_an_engine_that_drops_its_requests_on_sigterm_hears_of_it_last(engine: str) -> None:
    made = catalog.program(spec(engine), ("name",), 500)
    names = catalog.metric_names(engine)
    assert made.held_back_by == (() if engine in ("vllm", "sglang") else (names.waiting, names.running))
