"""Who may ask, and what a request may look like before anything is done for it. No I/O."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from typing import Any

from forebay_operator.gateway.errors import Refusal


class ApiKeys:
    """The keys that are let in. Only digests are held; a comparison takes as long whichever key is right."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(hashlib.sha256(key.encode()).digest() for key in keys)

    @classmethod
    def parse(cls, text: str) -> ApiKeys:
        """One key a line; blank lines and lines that begin with # are none."""
        lines = (line.strip() for line in text.splitlines())
        return cls(line for line in lines if line and not line.startswith("#"))

    def __len__(self) -> int:
        return len(self._digests)

    def check(self, authorization: str, x_api_key: str = "") -> None:
        """Raises a 401 unless a header carries one of the keys: a bearer goes before Anthropic's `x-api-key`.

        It never repeats what was sent.
        """
        scheme, _, bearer = authorization.partition(" ")
        key = bearer if scheme.lower() == "bearer" else x_api_key
        digest = hashlib.sha256(key.strip().encode("utf-8", "surrogateescape")).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            message = "A valid API key is needed: Authorization: Bearer KEY."
            raise Refusal(401, message, code="invalid_api_key")


class Room:
    """How many bytes of bodies all requests together may hold: each is held for as long as its answer lasts."""

    def __init__(self, size: int) -> None:
        self._free = size

    def take(self, count: int) -> None:
        """Raises a 503 if there is no room for so many more bytes."""
        if count > self._free:
            message = "The gateway holds as many request bodies as it can."
            raise Refusal(503, message, code="gateway_full", retry_after=1)
        self._free -= count

    def give_back(self, count: int) -> None:
        self._free += count


def parse_body(raw: bytes) -> tuple[str, dict[str, Any]]:
    """The model's name and the whole body; a 400 that names the fault otherwise."""
    try:
        body = json.loads(raw)
    except RecursionError:
        raise Refusal(400, "The body's JSON is nested too deeply.", code="invalid_json") from None
    except ValueError as e:
        message = f"The body is not JSON: {e}" if raw else "The body is empty; a JSON object is needed."
        raise Refusal(400, message, code="invalid_json") from None
    if not isinstance(body, dict):
        raise Refusal(400, f"The body is a JSON {_kind(body)}; an object is needed.", code="invalid_json")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        what = "is missing" if "model" not in body else f"must be a non-empty string, not {_kind(model)}"
        raise Refusal(400, f"The field model {what}.", code="invalid_value", param="model")
    return model, body


def _kind(value: Any) -> str:
    names = {str: "string", list: "array", dict: "object", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
