"""What the models make of a resource from the API server."""

from forebay_operator.resource import InvalidSpec, Spec
from tests.operator.builders import SOURCE, resource


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
