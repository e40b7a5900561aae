"""The names that requests can have in `model`: the served model's own, and those of its adapters."""

from __future__ import annotations

from forebay_runtime.adapter import Adapter
from forebay_runtime.request import RequestError
from forebay_runtime.server.adapters.registry import AdapterRegistry

_MOST_TOLD = 16


class ServedNames:
    """The first name is the model's own in replies and metrics."""

    def __init__(self, names: tuple[str, ...], adapters: AdapterRegistry) -> None:
        self.of_the_model, self._adapters = names, adapters
        self.first = names[0]

    @property
    def all(self) -> list[str]:
        return [*self.of_the_model, *self._adapters.by_name]

    def check(self, name: str | None) -> str:
        """The name to answer with. RequestError 404 for another model; None means whichever is here."""
        if name is None:
            return self.first
        if name not in self.of_the_model and name not in self._adapters.by_name:
            told = self.all[:_MOST_TOLD]
            raise RequestError(
                f"The model {name[:256]!r} is not served here; {', '.join(map(repr, told))} is.",
                status=404,
                code="model_not_found",
                param="model",
            )
        return name

    def adapter(self, name: str) -> Adapter | None:
        """The one that has the name now; None where it is the model's own."""
        return self._adapters.get(name)
