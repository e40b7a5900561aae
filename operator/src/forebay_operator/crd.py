"""The CustomResourceDefinition, made from the pydantic models: a structural schema. No I/O."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import yaml

from forebay_operator.api_names import GROUP, KIND, PLURAL, VERSION
from forebay_operator.resource import Spec, Status
from forebay_operator.resource.schema import RULED, Part, checked, rule

MAX_NAME = 50  # a Service's name has 63 characters; the rest is for the suffixes of children to come
NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"  # a Service's name: no dots, a letter first
MAX_GROUP_NAME = 42  # StatefulSets of a group have 10 more, and bear 52 themselves
COLUMNS = [
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
    {"name": "Model", "type": "string", "jsonPath": ".status.model.name"},
    {"name": "URL", "type": "string", "jsonPath": ".status.url"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Engine", "type": "string", "jsonPath": ".spec.engine.type", "priority": 1},
    {"name": "Quantization", "type": "string", "jsonPath": ".status.model.quantization", "priority": 1},
    {"name": "Revision", "type": "string", "jsonPath": ".status.revision", "priority": 1},
    {"name": "Reason", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].reason', "priority": 1},
]


def manifest() -> dict[str, Any]:
    """The CRD as an object."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": COLUMNS,
        "schema": {"openAPIV3Schema": _root()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["isvc"],
                "categories": ["all", "forebay"],
            },
            "versions": [version],
        },
    }


def text() -> str:
    """The CRD as YAML, the contents of crds/inferenceservices.yaml."""
    head = "# Made by `make crds` from operator/src/forebay_operator/resource/: change that instead.\n"
    no_aliases = json.loads(json.dumps(manifest()))
    return head + yaml.safe_dump(no_aliases, sort_keys=False, width=120, allow_unicode=True)


def _root() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A language model that is served: Forebay makes pods that answer the OpenAI API for it.",
        "required": ["spec"],
        **checked(
            rule(
                "!has(self.spec.engine) || !has(self.spec.engine.parallelism) || "
                "!has(self.spec.engine.parallelism.nodes) || "
                f"self.spec.engine.parallelism.nodes == 1 || size(self.metadata.name) <= {MAX_GROUP_NAME}",
                f"with parallelism.nodes beyond 1 a name has at most {MAX_GROUP_NAME} characters",
            )
        ),
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "InferenceService."},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": MAX_NAME, "pattern": NAME_PATTERN}},
            },
            "spec": {**_schema(Spec), "description": "What is to be served, and how."},
            "status": {**_schema(Status), "description": "What was last seen of it."},
        },
    }


def _schema(part: type[Part]) -> dict[str, Any]:
    schema = part.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    return _structural(schema, definitions)


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Pydantic's JSON schema as Kubernetes wants it: references put in place, no null, no title."""
    found = dict(schema)
    if reference := found.pop("$ref", None):
        found = {**definitions[reference.rsplit("/", 1)[1]], **found}
    if "anyOf" in found and "x-kubernetes-int-or-string" not in found:
        (only,) = [option for option in found.pop("anyOf") if option != {"type": "null"}]
        return _structural({**only, **found}, definitions)
    for name in ("title", "propertyNames"):
        found.pop(name, None)
    if found.get("default") in (None, [], {}, ""):
        found.pop("default", None)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "properties" in found:
        required = found.get("required", [])
        found["properties"] = {k: _property(v, k in required, definitions) for k, v in found["properties"].items()}
        found.pop("additionalProperties", None)
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = _structural(found[name], definitions)
    return found


def _property(schema: dict[str, Any], required: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    """A part that is always there defaults to {}, which its own fields' defaults then fill."""
    always_there = "$ref" in schema and not required and RULED not in schema
    schema = {k: v for k, v in schema.items() if k != RULED}
    return _structural(schema, definitions) | ({"default": {}} if always_there else {})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`forebay crds` takes no arguments."""


def run(_: argparse.Namespace) -> None:
    sys.stdout.write(text())
