"""Who waits for the weights sees how far they are."""

from __future__ import annotations

import io
import threading

import pytest

from forebay_runtime.progress import Progress
from forebay_runtime.progress_bar import bar, progress_bar, told


class Screen(io.StringIO):
    """Remembers that a full bar was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "50 %" in text:
            self.drawn.set()
        return super().write(text)


def half_read() -> Progress:
    progress = Progress()
    progress.expect(8_000_000)
    progress.add(4_000_000)
    return progress


def test_a_terminal_has_a_bar_and_an_empty_line_after_it() -> None:
    screen = Screen()
    with progress_bar(half_read(), screen):
        assert screen.drawn.wait(10)
    assert "[####################                    ] loading: 50 % of 8 MB" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_log_gets_no_bar() -> None:
    file = io.StringIO()
    with progress_bar(half_read(), file):
        pass
    assert file.getvalue() == ""


@pytest.mark.parametrize(("done", "share"), [(0, 0), (4_000_000, 50), (9_000_000, 100)])
def test_more_than_all_is_never_read(done: int, share: int) -> None:
    progress = Progress()
    progress.expect(8_000_000)
    progress.add(done)
    assert f" {share} %" in told(progress)
    assert bar(progress).count("#") == 40 * share // 100
