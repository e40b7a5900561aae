"""Which resource has which model name: requests are routed by it, so the oldest resource that asks for one has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from forebay_operator.resource import InferenceService

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    created: datetime
    key: Key
    models: tuple[str, ...]


class ModelNames:
    """Every resource's claim to its model names, as last heard. The gateway has the same rule, and reads for itself."""

    def __init__(self) -> None:
        self._claims: dict[Key, Claim] = {}
        self._by_model: dict[str, set[Claim]] = {}

    def heard(self, resource: InferenceService) -> set[Key]:
        """Takes a claim down; the other resources that are concerned by the change."""
        claim = _claim(resource)
        if claim == self._claims.get(resource.key):
            return set()
        concerned = self.gone(resource.key)
        self._claims[resource.key] = claim
        for model in claim.models:
            others = self._by_model.setdefault(model, set())
            concerned |= {c.key for c in others}
            others.add(claim)
        return concerned

    def gone(self, key: Key) -> set[Key]:
        """Strikes a claim out; the other resources that are concerned."""
        claim = self._claims.pop(key, None)
        concerned: set[Key] = set()
        if claim is None:
            return concerned
        for model in claim.models:
            others = self._by_model[model]
            others.discard(claim)
            concerned |= {c.key for c in others}
            if not others:
                del self._by_model[model]
        return concerned

    def older(self, resource: InferenceService) -> list[Key]:
        """Resources that have the better claim to one of its model names, the best first."""
        mine = _claim(resource)
        rivals = {c for model in mine.models for c in self._by_model.get(model, ()) if c.key != mine.key and c < mine}
        return [c.key for c in sorted(rivals)]


def _claim(resource: InferenceService) -> Claim:
    return Claim(resource.created, resource.key, resource.model_names)
