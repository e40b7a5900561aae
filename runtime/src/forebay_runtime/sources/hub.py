"""hf://: a repository of a hub. HF_ENDPOINT and HF_TOKEN are the hub library's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from httpx2 import HTTPError
from huggingface_hub import HfApi, RepoFile, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.utils import disable_progress_bars, filter_repo_objects

from forebay_runtime.sources.origin import OriginError

_WANTED = ["*.safetensors", "*.gguf", "*.json", "*.jinja", "*.model", "*.txt"]
_WEIGHTS = (".safetensors", ".gguf")
_UNWANTED = ["original/*", "onnx/*", "*/*.bin"]
_FAULTS = (HTTPError, HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError)


class Hub:
    """What this runtime reads of a repository, as it is at one commit: a branch may move meanwhile."""

    def __init__(self, repository: str, revision: str | None) -> None:
        self._repository, self._revision = repository, revision
        disable_progress_bars()

    def sizes(self) -> Mapping[str, int]:
        try:
            about = HfApi().repo_info(self._repository, revision=self._revision)
            self._revision = about.sha or self._revision
            tree = HfApi().list_repo_tree(self._repository, revision=self._revision, recursive=True)
            files = {f.path: f.size for f in tree if isinstance(f, RepoFile)}
        except _FAULTS as e:
            raise OriginError(e) from e
        wanted = list(filter_repo_objects(files, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
        if not any(name.endswith(_WEIGHTS) for name in wanted):
            raise OriginError("it holds no weights: neither *.safetensors nor a .gguf file")
        return {name: files[name] for name in wanted}

    def bring(self, directory: Path) -> None:
        try:
            snapshot_download(
                self._repository,
                revision=self._revision,
                local_dir=directory,
                allow_patterns=_WANTED,
                ignore_patterns=_UNWANTED,
            )
        except _FAULTS as e:
            raise OriginError(e) from e
