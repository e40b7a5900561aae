"""What clients may ask for and this server does not do yet: refused by name, never ignored.

Fields that nobody here knows are borne (see unknown_fields); those below change what a correct answer is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forebay_runtime.request import RequestError

Neutral = Callable[[Any], bool]  # values that ask for nothing


def _one_of(*values: object) -> Neutral:
    return lambda value: any(value == v and type(value) is type(v) for v in values)


_NOTHING: Neutral = lambda value: value is None or value is False or value in ([], {}, "")  # noqa: E731
_BOTH: dict[str, Neutral] = {
    "structural_tag": _NOTHING,
    "prompt_logprobs": _NOTHING,
    "use_beam_search": _NOTHING,
    "allowed_token_ids": _NOTHING,
    "bad_words": _NOTHING,
    "logits_processors": _NOTHING,
    "truncate_prompt_tokens": _NOTHING,
    "return_token_ids": _NOTHING,
    "return_tokens_as_token_ids": _NOTHING,
}
CHAT: dict[str, Neutral] = _BOTH | {
    "functions": _NOTHING,
    "function_call": _one_of("none", "auto"),
    "audio": _NOTHING,
    "modalities": lambda value: value == ["text"],
    "web_search_options": _NOTHING,
    "echo": _NOTHING,
}
COMPLETIONS: dict[str, Neutral] = _BOTH | {"suffix": _NOTHING}
NAMES = frozenset((*CHAT, *COMPLETIONS))
PATHS = frozenset(
    f"/v1/{name}"
    for name in (
        *("audio/speech", "audio/transcriptions", "audio/translations"),
        *("images/generations", "images/edits", "images/variations", "moderations", "files", "batches", "rerank"),
        *("fine_tuning/jobs", "assistants", "threads", "vector_stores", "uploads", "score", "pooling", "realtime"),
    )
)


def refuse_unsupported(body: Mapping[str, Any], features: Mapping[str, Neutral]) -> None:
    """RequestError 400 that names the first such field."""
    for name, neutral in features.items():
        value = body.get(name)
        if value is not None and not neutral(value):
            raise _unsupported(name, f"{name} is not supported by this server.")


def _unsupported(param: str, message: str) -> RequestError:
    return RequestError(message, code="unsupported_parameter", param=param)
