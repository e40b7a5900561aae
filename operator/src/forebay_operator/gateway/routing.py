"""Which endpoint a request goes to: prompts that begin alike go to one endpoint, unless it carries more than its share.

Rendezvous hashing (Thaler and Ravishankar, 1998) orders the endpoints for each key, so that an endpoint that comes or
goes moves only its own keys; the bound on load is that of consistent hashing with bounded loads (Mirrokni, Thorup and
Zadimoghaddam, 2018). No I/O, no state.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from typing import Any

from forebay_operator.endpoints import Endpoint

LOAD_FACTOR = 1.25  # how far above the mean an endpoint may be loaded for the sake of its prefix cache
KEY_CHARACTERS = 1024
KEY_TOKENS = 256


def pick(key: bytes, endpoints: Collection[Endpoint], load: Mapping[str, int]) -> Endpoint:
    """The first endpoint in the key's order that is not above its share. `load`: requests in flight by address.

    An empty key has no order: the least loaded endpoint takes it. `endpoints` must not be empty.
    """
    order = sorted(endpoints, key=lambda e: _rank(key, e))
    if not key:
        return min(order, key=lambda e: load.get(e.address, 0))
    share = bound(sum(load.get(e.address, 0) for e in order), len(order))
    return next(e for e in order if load.get(e.address, 0) < share)


def bound(total: int, count: int) -> int:
    """How many requests one of `count` endpoints may hold once one more than `total` are in flight."""
    return math.ceil(LOAD_FACTOR * (total + 1) / count)


def _rank(key: bytes, endpoint: Endpoint) -> bytes:
    return hashlib.blake2b(endpoint.address.encode(), key=hashlib.blake2b(key, digest_size=32).digest()).digest()


def request_key(body: Mapping[str, Any]) -> bytes:
    """What requests that share a prompt prefix have in common; empty if the body has no prompt to speak of.

    Of a chat, the beginning up to its first user message: it stays the same while the conversation grows. Malformed
    bodies are the endpoint's to refuse, so nothing here is an error.
    """
    messages = body.get("messages", body.get("input"))
    text = _opening(messages) if isinstance(messages, list) else _prompt(body.get("prompt", messages))
    text = "".join(_text(body.get(name)) for name in ("instructions", "system")) + text
    return text[:KEY_CHARACTERS].encode("utf-8", "surrogatepass")


def _opening(messages: list[Any]) -> str:
    parts: list[str] = []
    for message in messages:
        if not isinstance(message, dict):
            break
        parts.append(f"{message.get('role')}:{_text(message.get('content'))}")
        if message.get("role") == "user" or sum(map(len, parts)) >= KEY_CHARACTERS:
            break
    return "\n".join(parts)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content[:KEY_CHARACTERS]
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text[:KEY_CHARACTERS] for text in texts if isinstance(text, str))
    return ""


def _prompt(prompt: Any) -> str:
    match prompt:
        case str():
            return prompt[:KEY_CHARACTERS]
        case [str() | list() as first, *_]:
            return _prompt(first)
        case [int(), *_]:
            return ",".join(str(token) for token in prompt[:KEY_TOKENS])
        case _:
            return ""
