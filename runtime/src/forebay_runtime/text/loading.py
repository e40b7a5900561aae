"""Finds and reads the tokenizer of a model path: a Hugging Face directory, a GGUF file, or a directory with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from forebay_runtime.gguf_file import GgufError, find_gguf, read_gguf
from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.gguf_vocabulary import read_gguf_tokenizer
from forebay_runtime.text.tokenizer import Tokenizer, TokenizerFiles


def load_tokenizer(path: Path) -> Tokenizer:
    """TokenizerError with the culprit in it. A tokenizer.json goes before a GGUF file beside it."""
    if not path.exists():
        raise TokenizerError(f"{path} does not exist")
    if (path / "tokenizer.json").is_file():
        return Tokenizer(_read_directory(path))
    try:
        gguf = find_gguf(path)
        if gguf is None:
            raise TokenizerError(f"{path} holds neither a tokenizer.json nor a GGUF file")
        return Tokenizer(read_gguf_tokenizer(read_gguf(gguf)))
    except GgufError as e:
        raise TokenizerError(str(e)) from e


def _read_directory(path: Path) -> TokenizerFiles:
    file = path / "tokenizer.json"
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as e:  # tokenizers raises bare Exception
        raise TokenizerError(f"{file} can't be read: {e}") from e
    tokenizer.no_truncation()
    tokenizer.no_padding()
    config = _read_json(path / "tokenizer_config.json")
    bos, eos = _token_text(config.get("bos_token")), _token_text(config.get("eos_token"))
    return TokenizerFiles(
        tokenizer, _eos_token_ids(path, tokenizer, eos), bos, eos, _chat_template(path, config.get("chat_template"))
    )


def _eos_token_ids(path: Path, tokenizer: Any, eos: str | None) -> frozenset[int]:
    """All that the model's files name: generation_config.json, config.json and the tokenizer's own."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = _read_json(path / name).get("eos_token_id")
        found.update(i for i in (value if isinstance(value, list) else [value]) if isinstance(i, int))
    own = tokenizer.token_to_id(eos) if eos is not None else None
    return frozenset(found if own is None else found | {own})


def _chat_template(path: Path, value: object) -> str | None:
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    if isinstance(value, list):  # several, by name
        named = {t.get("name"): t.get("template") for t in value if isinstance(t, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None


def _token_text(value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as e:
        raise TokenizerError(f"{file} is no JSON: {e}") from e
    if not isinstance(value, dict):
        raise TokenizerError(f"{file} holds no JSON object")
    return value
