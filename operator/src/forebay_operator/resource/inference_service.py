"""One resource as read from the API server, and its kind's place there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from forebay_operator.resource.spec import InvalidSpec, Spec
from forebay_operator.resource.status import Status, understood


@dataclass(frozen=True, slots=True)
class InferenceService:
    """One resource as read from the API server. `spec` is InvalidSpec where this operator does not understand it."""

    name: str
    namespace: str
    uid: str
    generation: int
    created: datetime
    spec: Spec | InvalidSpec
    status: Status | None = None
    deleting: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def url(self) -> str:
        return f"http://{self.name}.{self.namespace}.svc"

    @property
    def model_name(self) -> str:
        return self.model_names[0]

    @property
    def model_names(self) -> tuple[str, ...]:
        """By which requests may ask for it, the chief one first."""
        if isinstance(self.spec, InvalidSpec):
            return (self.name,)
        model = self.spec.model
        return tuple(dict.fromkeys([model.served_name or self.name, *model.aliases]))


def parse(body: Mapping[str, Any]) -> InferenceService:
    meta = body["metadata"]
    return InferenceService(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        generation=meta["generation"],
        created=datetime.fromisoformat(meta["creationTimestamp"]),
        spec=_spec(body.get("spec") or {}),
        status=understood(body.get("status") or {}),
        deleting="deletionTimestamp" in meta,
    )


def _spec(body: Mapping[str, Any]) -> Spec | InvalidSpec:
    try:
        return Spec.model_validate(body)
    except ValidationError as e:
        first = e.errors()[0]
        path = ".".join(["spec", *map(str, first["loc"])])
        return InvalidSpec(f"{path}: {first['msg']}")
