"""The gateway's keys while their file changes under it."""

import asyncio
import pathlib

import pytest

from forebay_operator.gateway import app

NO_TEXT = b"\xff\xfe"


async def test_a_file_that_is_no_text_for_a_while_changes_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "RELOAD_SECONDS", 0.01)
    path = tmp_path / "keys"
    path.write_text("first")
    file = app.KeyFile(path)
    path.write_bytes(NO_TEXT)
    following = asyncio.create_task(file.follow())
    await asyncio.sleep(0.1)
    assert not following.done()
    file.keys.check("Bearer first")
    path.write_text("second")
    await asyncio.sleep(0.1)
    file.keys.check("Bearer second")
    following.cancel()


def test_a_file_that_is_no_text_at_the_start_is_told_in_one_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(NO_TEXT)
    with pytest.raises(app.StartError, match="is no text"):
        app.KeyFile(path)
