"""Brings a model from a hub into a directory: the init container of hf:// sources."""

from __future__ import annotations

import re
from pathlib import Path

from forebay_runtime.failures import StartUpError

_SOURCE = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?/?")
_WANTED = ["*.safetensors", "*.gguf", "*.json", "*.jinja", "*.model", "*.txt"]
_UNWANTED = ["original/*", "onnx/*", "*/*.bin"]


def fetch(source: str, directory: Path) -> None:
    """What this runtime reads of the repository. HF_ENDPOINT and HF_TOKEN are the hub library's own.

    StartUpError: the source is none, or the hub has not given it, or it holds no weights.
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise StartUpError(f"{source!r} is no source of the form hf://org/name[@revision]")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        snapshot_download(
            match["repository"],
            revision=match["revision"],
            local_dir=directory,
            allow_patterns=_WANTED,
            ignore_patterns=_UNWANTED,
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as e:
        raise StartUpError(f"{source} can't be fetched: {_one_line(e)}") from e
    if not any(p.suffix in (".safetensors", ".gguf") for p in directory.rglob("*")):
        raise StartUpError(f"{source} holds no weights: neither *.safetensors nor a .gguf file")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
