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
    model: str


class ModelNames:
    """Every resource's claim to a model name, as last heard. The gateway has the same rule, and reads for itself."""

    def __init__(self) -> None:
        self._claims: dict[Key, Claim] = {}

    def heard(self, resource: InferenceService) -> set[Key]:
        """Takes a claim down; the other resources that are concerned by the change."""
        claim = Claim(resource.created, resource.key, resource.model_name)
        before = self._claims.get(resource.key)
        if claim == before:
            return set()
        self._claims[resource.key] = claim
        return self._others(resource.key, {claim.model, before.model if before else claim.model})

    def gone(self, key: Key) -> set[Key]:
        """Strikes a claim out; the other resources that are concerned."""
        claim = self._claims.pop(key, None)
        return self._others(key, {claim.model}) if claim else set()

    def older(self, resource: InferenceService) -> list[Key]:
        """Resources that have the better claim to its model name, the best first."""
        mine = Claim(resource.created, resource.key, resource.model_name)
        better = [c for c in self._claims.values() if c.model == mine.model and c < mine]
        return [c.key for c in sorted(better)]

    def _others(self, key: Key, models: set[str]) -> set[Key]:
        return {c.key for c in self._claims.values() if c.model in models and c.key != key}
