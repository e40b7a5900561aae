"""Whether a model has room: the arithmetic, and what counts as being there."""

from pathlib import Path

import pytest

from forebay_runtime.sources.room import Room, bytes_in, lacking

SIZES = {"a": 600, "b": 400}


@pytest.mark.parametrize(
    "room", [Room(0, 1000), Room(0, 1000, 1000), Room(400, 600), Room(1000, 0)], ids=["free", "most", "rest", "all"]
)
def test_what_fits_is_let_through(room: Room) -> None:
    assert lacking(SIZES, room) is None


@pytest.mark.parametrize(
    ("room", "words"),
    [
        (Room(0, 999), "its 2 files have 1,000 bytes, and the volume has 999 free: 1 too few"),
        (
            Room(100, 800),
            "its 2 files have 1,000 bytes, of which 100 are there, and the volume has 800 free: 100 too few",
        ),
        (Room(0, 5000, 900), "its 2 files have 1,000 bytes, and the volume is to hold 900: 100 too many"),
    ],
)
def test_what_does_not_is_refused_with_the_arithmetic(room: Room, words: str) -> None:
    assert lacking(SIZES, room) == f"no room: {words}"


def test_a_file_that_was_only_given_its_size_holds_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "written").write_bytes(b"x" * 100_000)
    with (tmp_path / "promised").open("wb") as file:
        file.truncate(1 << 30)
    assert bytes_in(tmp_path) == 100_000
