"""Whether a model fits, from what pods have told; and what the status says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay_operator.facts import KnownModels, loading_status
from forebay_operator.memory import memory, shortage
from forebay_operator.observed import Observed
from forebay_operator.reports import Footprint, Loading, parse_footprint, parse_loading
from forebay_operator.resource import InferenceService, Spec, Status
from forebay_operator.resource.status import ModelStatus
from forebay_operator.sync import sync
from tests.operator.builders import CONFIG, NOW, SOURCE, observed, pod_body, resource, revision, says, wanted

MIB = 1 << 20
FOOTPRINT = Footprint(
    parameters=100 * MIB,
    weight_bytes=100 * MIB,
    kv_bytes_per_token=32768,
    kv_dtype="bfloat16",
    own_bytes=300 * MIB,
    context=4096,
    model_context=8192,
    quantization="int8",
)
VERSION = {
    "version": "1",
    "kernels": "avx2",
    "quantization": "int8",
    "dtype": "bfloat16",
    "model": {
        "parameters": 100 * MIB,
        "weight_bytes": 100 * MIB,
        "kv_bytes_per_token": 32768,
        "kv_bytes": 4096 * 32768,
        "kv_dtype": "bfloat16",
        "other_bytes": 300 * MIB,
        "context": 4096,
        "model_context": 8192,
    },
}
TOLD = ModelStatus(
    name="demo",
    source=SOURCE,
    revision="abc",
    parameters=100 * MIB,
    bytes=100 * MIB,
    context=4096,
    quantization="int8",
    model_context=8192,
    kv_bytes_per_token=32768,
    kv_dtype="bfloat16",
    own_bytes=300 * MIB,
)


def spec(limit: str | None = "1Gi", context: int | None = 1024, **engine: Any) -> Spec:
    model = {"source": SOURCE, **({"contextLength": context} if context else {})}
    found = resource(model=model, engine=engine, resources={"limits": {"memory": limit}} if limit else {}).spec
    assert isinstance(found, Spec)
    return found


def test_weights_keys_and_values_of_the_context_and_the_engines_own_are_added_up() -> None:
    found = memory(spec(), TOLD)
    assert (found.weights, found.kv, found.own) == (100 * MIB, 32 * MIB, 300 * MIB)
    assert (found.total, found.available, found.fits) == (432 * MIB, 1024 * MIB, True)
    assert found.basis == "told by pods of revision abc"


@pytest.mark.parametrize(
    ("asked", "total"),
    [
        (spec(context=8192), 656),
        (spec(context=8192, kvCache={"dtype": "f32"}), 912),
        (spec(context=8192, kvCache={"dtype": "int8"}), 534),
        (spec(quantization="none"), 532),
        (spec(quantization="int4"), 395),
        (spec(limits={"maxNumSeqs": 65}), 464),
        (spec(limits={"kvCacheMemory": "200Mi"}), 600),
        (spec(context=None), 416),
    ],
)
def test_other_contexts_types_and_quantizations_are_computed_from_what_was_told(asked: Spec, total: int) -> None:
    found = memory(asked, TOLD).total
    assert found is not None
    assert round(found / MIB) == total


def test_a_model_that_was_saved_smaller_than_auto_makes_it_takes_what_it_was_told_to() -> None:
    saved = TOLD.model_copy(update={"quantization": "int4", "bytes": 63 * MIB})
    assert memory(spec(), saved).weights == 63 * MIB
    assert memory(spec(quantization="int8"), saved).weights == 100 * MIB


def test_what_does_not_fit_is_refused_with_the_arithmetic_and_what_would() -> None:
    cause = shortage(spec("500Mi", 8192), TOLD)
    assert cause is not None
    assert cause.reason == "DoesNotFit"
    assert cause.message == (
        "the model does not fit: 100 MiB of weights + 256 MiB of KV cache (8192 tokens of 32768 bytes) + 300 MiB of "
        "the engine's own = 656 MiB, but a pod has 500 MiB: a larger spec.resources.limits.memory, or a "
        "spec.model.contextLength of at most 3200"
    )
    assert shortage(spec("500Mi", 3200), TOLD) is None


def test_a_kv_cache_smaller_than_the_context_is_refused() -> None:
    cause = shortage(spec(context=8192, limits={"kvCacheMemory": "64Mi"}), TOLD)
    assert cause is not None
    assert "kvCacheMemory is 64 MiB, but 8192 tokens of 32768 bytes need 256 MiB" in cause.message


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (spec("1Mi", args=["--max-model-len=16"]), "overrule"),
        (spec("1Mi", type="vllm"), "does not tell"),
    ],
)
def test_no_claim_is_made_where_something_is_not_known(asked: Spec, why: str) -> None:
    assert shortage(asked, TOLD) is None
    assert why in memory(asked, TOLD).basis
    assert memory(asked, TOLD).fits is None


def test_before_any_pod_has_told_nothing_is_claimed() -> None:
    outcome = wanted(resource(resources={"limits": {"memory": "1Mi"}}))
    assert outcome.children is not None
    assert outcome.status.memory is not None
    assert outcome.status.memory.basis == "unknown: no pod of this source has told yet"
    assert outcome.status.memory.fits is None


def test_without_a_limit_nothing_is_claimed() -> None:
    found = memory(spec(None), TOLD)
    assert (found.fits, found.available) == (None, None)
    assert "no known limit" in found.basis


@pytest.mark.parametrize(
    ("gpu", "fits"),
    [
        ({"mig": "1g.10gb"}, True),
        ({"product": "NVIDIA-A100-SXM4-80GB"}, True),
        ({"memory": "100Mi"}, False),
        ({}, None),
    ],
)
def test_on_gpus_it_is_their_memory_that_counts(gpu: dict[str, Any], fits: bool | None) -> None:
    of = resource(resources={"gpu": gpu, "limits": {"memory": "1Mi"}}, status=remembering())
    found = sync(of, Observed(), CONFIG, NOW).status.memory
    assert found is not None
    assert found.fits is fits


def remembering(model: ModelStatus = TOLD) -> Status:
    return Status(observed_generation=1, model=model)


def test_what_a_pod_tells_is_remembered_by_source_and_then_stands_in_the_way_of_what_cannot_fit() -> None:
    of = resource()
    seen = replace(observed(of, [pod_body("p", revision(of), ready=True)]), footprint=(revision(of), FOOTPRINT))
    told = sync(of, seen, CONFIG, NOW).status
    assert told.model == TOLD.model_copy(update={"revision": revision(of)})
    after = resource(resources={"limits": {"memory": "200Mi"}}, status=told, generation=2)
    outcome = sync(after, observed(of), CONFIG, NOW)
    assert outcome.children is None, "what serves is left alone"
    assert says(outcome)["Accepted"] == ("False", "DoesNotFit")
    assert outcome.status.memory is not None
    assert outcome.status.memory.fits is False


def known_from(other: InferenceService, of: InferenceService) -> ModelStatus | None:
    models = KnownModels()
    models.heard(other)
    return models.of(of)


def test_a_fresh_resource_of_a_known_source_is_refused_before_any_pod() -> None:
    other = resource("other", status=remembering())
    of = resource(resources={"limits": {"memory": "200Mi"}})
    outcome = sync(of, Observed(known=known_from(other, of)), CONFIG, NOW)
    assert outcome.children is None
    assert says(outcome)["Accepted"] == ("False", "DoesNotFit")
    assert outcome.status.memory is not None
    assert outcome.status.memory.basis == "told by another resource's pods"
    assert outcome.status.model == TOLD.model_copy(update={"revision": None, "context": None})


@pytest.mark.parametrize("source", ["pvc://models/llama", SOURCE])
def test_pods_of_another_namespace_have_no_say_whatever_the_source(source: str) -> None:
    other = resource(model={"source": source}, status=remembering(TOLD.model_copy(update={"source": source})))
    assert known_from(other, resource(model={"source": source})) is not None
    assert known_from(other, replace(resource(model={"source": source}), namespace="elsewhere")) is None


def test_another_source_is_another_model() -> None:
    of = resource(model={"source": "oci://registry/other:1"}, resources={"limits": {"memory": "1Mi"}})
    outcome = sync(replace(of, status=remembering()), Observed(), CONFIG, NOW)
    assert says(outcome)["Accepted"] == ("True", "Accepted")
    assert outcome.status.model == ModelStatus(name="demo", source="oci://registry/other:1")


def test_pods_of_a_former_source_say_nothing_of_the_new_one() -> None:
    of = resource(model={"source": "oci://registry/other:1"})
    seen = replace(observed(of, [pod_body("old", "former", ready=True)]), footprint=("former", FOOTPRINT))
    model = sync(of, seen, CONFIG, NOW).status.model
    assert model is not None
    assert model.parameters is None


def test_loading_is_told_with_its_rate_and_what_is_left() -> None:
    of = resource()
    seen = observed(of, [pod_body("p", revision(of))])
    outcome = sync(of, replace(seen, loading=(Loading("p", 10 * MIB, 40 * MIB, 2.0),)), CONFIG, NOW)
    loading = outcome.status.loading
    assert loading is not None
    assert (loading.pod, loading.bytes_per_second, loading.eta_seconds) == ("p", 5 * MIB, 6)
    assert outcome.requeue_after is not None
    assert sync(of, seen, CONFIG, NOW).status.loading is None


def test_the_runtimes_answer_is_understood() -> None:
    assert parse_footprint(VERSION) == FOOTPRINT


@pytest.mark.parametrize("told", [-1, 0, 1 << 62, 10**400, 1.5, True, None, "7"])
@pytest.mark.parametrize("field", ["parameters", "weight_bytes", "kv_bytes_per_token", "context", "model_context"])
def test_what_is_no_count_is_not_taken_for_one(field: str, told: Any) -> None:
    model: Any = VERSION["model"]
    with pytest.raises(ValueError, match="no count"):
        parse_footprint({**VERSION, "model": {**model, field: told}})


@pytest.mark.parametrize("told", ["", "x" * 33, "two words", 7, None])
def test_what_is_no_word_is_not_taken_for_one(told: Any) -> None:
    with pytest.raises(ValueError, match="no word"):
        parse_footprint({**VERSION, "quantization": told})


@pytest.mark.parametrize("seconds", ["nan", "inf", -1, 1e300])
def test_seconds_that_are_none_tell_of_no_loading(seconds: Any) -> None:
    with pytest.raises(ValueError, match="no seconds"):
        parse_loading("p", {"loading": {"bytes": 1, "total": 2, "seconds": seconds}})


def test_whatever_a_pod_tells_of_its_loading_the_status_can_say() -> None:
    told = parse_loading("p", {"loading": {"bytes": 1 << 60, "total": 1 << 59, "seconds": 5e-324}})
    found = loading_status([told])
    assert found is not None
    assert (found.bytes, found.bytes_per_second, found.eta_seconds) == (1 << 59, 0, None)


def test_what_is_known_of_a_source_goes_with_the_last_resource_that_was_told() -> None:
    models, of = KnownModels(), resource()
    for name in ("one", "two"):
        models.heard(resource(name, status=remembering()))
        models.heard(resource(name, status=remembering()))
    models.gone(("ns", "one"))
    assert models.of(of) is not None
    models.heard(resource("two", model={"source": "oci://registry/another:1"}, status=remembering()))
    assert models.of(of) is None, "it serves another one now"
    models.gone(("ns", "two"))
    assert (models._by_source, models._source_of) == ({}, {})
