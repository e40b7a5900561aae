"""The CRD is what the models say, and what an API server takes as a structural schema."""

import pathlib
from collections.abc import Iterator
from typing import Any

from forebay_operator import crd

ROOT = pathlib.Path(__file__).parents[2]
SPEC = crd.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def fields(schema: dict[str, Any], path: str = "spec") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
        yield from fields(part.get("items", part), f"{path}.{name}")


def test_the_file_is_the_generated_one() -> None:
    assert (ROOT / "crds" / "inferenceservices.yaml").read_text() == crd.text(), "run `make crds`"


def test_every_field_has_a_sentence() -> None:
    mute = [path for path, part in fields(SPEC) if not part.get("description", "").endswith((".", "left out."))]
    assert not mute


def test_every_field_has_a_type_and_no_json_schema_word_that_kubernetes_lacks() -> None:
    for path, part in fields(SPEC):
        assert "type" in part or part.get("x-kubernetes-int-or-string"), path
        assert not {"$ref", "title", "const", "exclusiveMinimum", "x-ruled"} & part.keys(), path


def test_every_number_and_text_is_bounded() -> None:
    open_ended = [
        path
        for path, part in fields(SPEC)
        if (part.get("type") == "integer" and "minimum" not in part)
        or (part.get("type") == "string" and not {"maxLength", "enum", "pattern"} & part.keys())
        or (part.get("type") == "array" and "maxItems" not in part)
    ]
    assert not open_ended


def test_blocks_that_are_always_there_default_to_their_parts_defaults() -> None:
    blocks = {name for name, part in SPEC["properties"].items() if part.get("default") == {}}
    assert blocks == {"engine", "resources", "rollout", "access", "podTemplate"}
    assert "default" not in SPEC["properties"]["scaling"], "no autoscaler unless it is asked for"


def test_replicas_default_to_one_so_that_the_autoscaler_finds_a_number() -> None:
    assert SPEC["properties"]["replicas"]["default"] == 1
