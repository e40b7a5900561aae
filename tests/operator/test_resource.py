"""What the models make of a resource from the API server."""

from typing import Any

import pytest

from forebay_operator.resource import InvalidSpec, Spec
from forebay_operator.resource.status import understood
from tests.operator.builders import SOURCE, resource, wanted


def test_the_model_name_is_the_served_name_or_the_own_name() -> None:
    assert resource("demo").model_name == "demo"
    assert resource("demo", model={"source": SOURCE, "servedName": "模型"}).model_name == "模型"


def test_aliases_come_after_the_served_name() -> None:
    assert resource("demo", model={"source": SOURCE, "aliases": ["a", "demo"]}).model_names == ("demo", "a")


def test_a_revision_may_stand_beside_the_source() -> None:
    spec = resource(model={"source": "hf://org/name", "revision": "v1"}).spec
    assert isinstance(spec, Spec)
    assert spec.model.origin == "hf://org/name@v1"


def test_a_field_this_operator_does_not_know_is_refused_by_name() -> None:
    spec = resource(engine={"warpSpeed": 9}).spec
    assert isinstance(spec, InvalidSpec)
    assert "spec.engine.warpSpeed" in str(spec)


def test_quantities_may_be_numbers_or_texts() -> None:
    spec = resource(resources={"requests": {"cpu": 2, "memory": "1Gi"}}).spec
    assert isinstance(spec, Spec)
    assert spec.resources.requests == {"cpu": "2", "memory": "1Gi"}


def status_body(**more: Any) -> dict[str, Any]:
    whole = wanted(resource()).status.model_dump(by_alias=True)
    return {**whole, "revision": "abc", **more}


@pytest.mark.parametrize(
    "odd",
    [
        {"model": "demo"},
        {"model": {"name": "demo", "colour": "red"}},
        {"fromTheFuture": 1},
        {"replicas": "many"},
        {"lastScale": [{"from": 1}] * 9},
        {"memory": {"weights": 1}},
    ],
)
def test_a_status_of_another_version_is_understood_but_for_what_is_odd(odd: dict[str, Any]) -> None:
    status = understood(status_body(**odd))
    assert status is not None
    assert status.revision == "abc"
    assert status.condition("Accepted") is not None


def test_of_a_part_or_list_the_rest_is_understood() -> None:
    model = {"name": "demo", "source": SOURCE, "parameters": 7, "bytes": "a lot"}
    kept = status_body()["conditions"]
    lacking = [{"type": "Ready"}, {**kept[0], "type": "Odd", "status": "Perhaps"}]
    status = understood(status_body(model=model, conditions=[lacking[0], *kept, lacking[1]]))
    assert status is not None
    assert status.model is not None
    assert (status.model.parameters, status.model.bytes) == (7, None)
    assert [c.model_dump(by_alias=True) for c in status.conditions] == kept


def test_a_status_without_its_generation_is_none() -> None:
    assert understood({"model": "demo"}) is None
    assert understood({}) is None
