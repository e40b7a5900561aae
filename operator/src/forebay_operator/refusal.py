"""How the API server's answers become errors that say whose fault it is and what happens next."""

from __future__ import annotations


class ClusterUnavailable(Exception):
    """The API server does not answer or cannot for now: retried with back-off, nothing is told in the status."""


class Overlooked(ClusterUnavailable):
    """Something is there under a child's name that the watches do not show; the next look sees it."""


class NamespaceEnding(Exception):
    """The namespace is being deleted, and the resource with it: nothing is left to do."""


class Refused(Exception):
    """The API server refuses what the spec leads to; `word` is the condition's reason. Retried with back-off."""

    def __init__(self, word: str, message: str) -> None:
        super().__init__(message)
        self.word = word


class ApiError(Exception):
    """The API server's answer where it is no success."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code, self.reason, self.message = code, reason, message


def consequence(error: ApiError, what: str) -> Exception:
    """The error to raise when writing `what` was answered so."""
    if error.code == 403 and "being terminated" in error.message:
        return NamespaceEnding(what)
    if error.code >= 500 or error.code in (409, 429):
        return ClusterUnavailable(f"{what}: {error}")
    word = {400: "InvalidSpec", 422: "InvalidSpec", 403: "Forbidden"}.get(error.code, "Refused")
    if "exceeded quota" in error.message:
        word = "QuotaExceeded"
    return Refused(word, f"{what} is refused: {error.message}")
