"""Libraries of other sources are never loaded: they would take structs for what they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay_runtime.kernels import native, sources


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One with libraries, which are read from there."""
    for name in native.instruction_sets():
        (tmp_path / f"libforebay_cpu_{name}.so").write_bytes((native.FOLDER / f"libforebay_cpu_{name}.so").read_bytes())
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    native.native_library.cache_clear()
    yield tmp_path
    native.native_library.cache_clear()


def test_those_of_the_same_sources_serve(folder: Path) -> None:
    (folder / sources.STAMP).write_text(sources.digest())
    assert native.native_library() is not None


def test_those_of_other_sources_do_not_and_it_is_said_why(folder: Path) -> None:
    (folder / sources.STAMP).write_text("of yesterday")
    assert native.native_library() is None
    assert "other sources" in native.why_none()


def test_those_of_unknown_sources_do_not(folder: Path) -> None:
    assert native.native_library() is None
    assert "no C++ compiler" in native.why_none()
