"""The names a model is served under."""

from __future__ import annotations

from forebay_runtime.request import RequestError


class ServedNames:
    """The first name is the model's own in replies and metrics."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.all = names
        self.first = names[0]

    def check(self, name: str | None) -> str:
        """The name to answer with. RequestError 404 for another model; None means whichever is here."""
        if name is None:
            return self.first
        if name not in self.all:
            raise RequestError(
                f"The model {name[:256]!r} is not served here; {', '.join(map(repr, self.all))} is.",
                status=404,
                code="model_not_found",
                param="model",
            )
        return name
