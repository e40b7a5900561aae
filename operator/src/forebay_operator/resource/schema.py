"""What the resource's parts are made of: their base, types of texts and quantities, words of the CRD's schema."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

QUANTITY_PATTERN = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
BYTES_PATTERN = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
IMAGE = r"[A-Za-z0-9][A-Za-z0-9.:_/@-]*"
RULED = "x-ruled"  # not required by the schema, which would hide the rules beside it, but by a rule of its parent


def rule(expression: str, message: str) -> dict[str, str]:
    """A CEL rule of the CRD."""
    return {"rule": expression, "message": message}


def checked(*rules: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"x-kubernetes-validations": list(rules), **more}


def atomic_list() -> dict[str, Any]:
    return {"x-kubernetes-list-type": "atomic"}


def list_by(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def int_or_string(pattern: str) -> WithJsonSchema:
    either = [{"type": "integer"}, {"type": "string"}]
    return WithJsonSchema({"anyOf": either, "pattern": pattern, "maxLength": 32, "x-kubernetes-int-or-string": True})


Quantity = Annotated[
    str, BeforeValidator(str), StringConstraints(pattern=QUANTITY_PATTERN), int_or_string(QUANTITY_PATTERN)
]
Bytes = Annotated[str, BeforeValidator(str), int_or_string(BYTES_PATTERN)]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=253)]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=LABEL_VALUE)]
ObjectName = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Milliseconds = Annotated[str, StringConstraints(max_length=16, pattern=r"^[0-9]+(\.[0-9]+)?(ms|s)$")]


class Part(BaseModel):
    """A part of the resource: camelCase outside, unknown fields refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)
