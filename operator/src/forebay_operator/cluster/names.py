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
        self._by_model: dict[str, set[Claim]] = {}

    def heard(self, resource: InferenceService) -> set[Key]:
        """Takes a claim down; the other resources that are concerned by the change."""
        claim = Claim(resource.created, resource.key, resource.model_name)
        if claim == self._claims.get(resource.key):
            return set()
        concerned = self.gone(resource.key)
        self._claims[resource.key] = claim
        others = self._by_model.setdefault(claim.model, set())
        concerned |= {c.key for c in others}
        others.add(claim)
        return concerned

    def gone(self, key: Key) -> set[Key]:
        """Strikes a claim out; the other resources that are concerned."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return set()
        others = self._by_model[claim.model]
        others.discard(claim)
        if not others:
            del self._by_model[claim.model]
        return {c.key for c in others}

    def older(self, resource: InferenceService) -> list[Key]:
        """Resources that have the better claim to its model name, the best first."""
        mine = Claim(resource.created, resource.key, resource.model_name)
        return [c.key for c in sorted(self._by_model.get(mine.model, ())) if c < mine]
