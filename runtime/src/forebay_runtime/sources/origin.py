"""What a kind of source has to offer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class OriginError(Exception):
    """It does not give what was asked for; the message says why, on one line."""

    def __init__(self, cause: BaseException | str) -> None:
        super().__init__(" ".join(str(cause).split()) or type(cause).__name__)


class Origin(Protocol):
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file that is wanted, by its path. OriginError."""
        ...

    def bring(self, directory: Path) -> None:
        """Brings them all, and goes on where an earlier attempt ended. OriginError."""
        ...
