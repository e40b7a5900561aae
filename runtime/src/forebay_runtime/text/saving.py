"""Leaves a model's tokenizer and template in another directory, as text.loading reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from forebay_runtime.gguf_file import GgufError, find_gguf, read_gguf
from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.gguf_vocabulary import read_gguf_tokenizer

_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json", "config.json")


def save_tokenizer(path: Path, directory: Path) -> None:
    """Copies a Hugging Face directory's files; what a GGUF file says is written in their form. TokenizerError."""
    if (path / "tokenizer.json").is_file():
        for name in _FILES:
            if (path / name).is_file():
                shutil.copyfile(path / name, directory / name)
        return
    try:
        gguf = find_gguf(path)
        if gguf is None:
            raise TokenizerError(f"{path} holds neither a tokenizer.json nor a GGUF file")
        files = read_gguf_tokenizer(read_gguf(gguf))
    except GgufError as e:
        raise TokenizerError(str(e)) from e
    files.tokenizer.save(str(directory / "tokenizer.json"))
    said = {"bos_token": files.bos_token, "eos_token": files.eos_token, "chat_template": files.chat_template}
    (directory / "tokenizer_config.json").write_text(json.dumps(said, indent=1))
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": sorted(files.eos_token_ids)}))
