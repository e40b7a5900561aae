"""The text that everything is measured on: Python's own documentation, as far as it ships with the interpreter."""

from __future__ import annotations

import functools
from pathlib import Path
from pydoc_data.topics import topics

from forebay_runtime.text.loading import load_tokenizer

WINDOW = 512  # tokens; what follows the first half of a window is predicted, as llama-perplexity does
WINDOWS = 16


@functools.cache
def text() -> str:
    return "\n".join(topics[name] for name in sorted(topics))


@functools.cache
def token_ids(model: Path) -> tuple[int, ...]:
    """The text as the model's tokenizer reads it, whatever it puts in front included."""
    return tuple(load_tokenizer(model).encode(text()))


def windows(model: Path) -> list[list[int]]:
    """Each begins with the token that the tokenizer puts in front of a text, if it does."""
    ids = token_ids(model)
    cut = [list(ids[i * WINDOW : (i + 1) * WINDOW]) for i in range(WINDOWS)]
    if load_tokenizer(model).encode("") == [ids[0]]:
        cut = [[ids[0], *window[1:]] for window in cut]
    return cut
