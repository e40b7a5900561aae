"""Detokenizer: pieces join to the text that a look at the whole would give, and show nothing too early."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from forebay_runtime.text.detokenizer import Detokenizer

TEXT = st.text(alphabet="abcd é日😀", max_size=24)
STOPS = st.lists(st.text(alphabet="abcd é日😀", min_size=1, max_size=5), max_size=3)


@st.composite
def tokens(draw: st.DrawFn) -> list[bytes]:
    """A text's bytes, cut anywhere, and now and then a byte that is no UTF-8."""
    data = bytearray(draw(TEXT).encode())
    if draw(st.booleans()):
        data.insert(draw(st.integers(0, len(data))), draw(st.sampled_from((0xFF, 0x80, 0xE6))))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [bytes(data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def cut_text(pieces: list[bytes], stops: list[str], *, include: bool) -> tuple[str, bool]:
    """The obvious way: look at the whole text again after each token."""
    text = ""
    for count in range(1, len(pieces) + 1):
        data = b"".join(pieces[:count])
        text = data[: len(data) - unfinished(data)].decode("utf-8", "replace")
        found = [(text.find(stop), len(stop)) for stop in stops if stop in text]
        if found:
            at, length = min(found)
            return text[: at + length if include else at], True
    return text, False


def unfinished(data: bytes) -> int:
    """Bytes at the end that may be the beginning of a character."""
    for length in (3, 2, 1):
        tail = data[-length:]
        if len(tail) < length:
            continue
        for more in (b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\x9f", b"\x9f\x80", b"\xa0\x80", b"\x90\x80\x80"):
            try:
                if len((tail + more).decode()) == 1:
                    return length
            except UnicodeDecodeError:
                continue
    return 0


@given(tokens(), STOPS, st.booleans())
@example([b"ab", b"c"], ["abc", "b"], False)
@example([b"a", b"b", b"x"], ["abc"], False)
def test_the_pieces_join_to_the_text_cut_at_the_first_stop(
    pieces: list[bytes], stops: list[str], include: bool
) -> None:
    detokenizer = Detokenizer(stops, include_stop=include)
    shown = ""
    want, stopped = cut_text(pieces, stops, include=include)
    for piece in pieces:
        shown += detokenizer.push(piece)
        assert want.startswith(shown)
    shown += detokenizer.finish()
    assert (shown, detokenizer.stopped) == (want, stopped)
    assert detokenizer.num_released == len(want)


@given(tokens())
def test_without_stops_only_bytes_of_an_unfinished_character_wait(pieces: list[bytes]) -> None:
    detokenizer = Detokenizer()
    shown, data = "", b""
    for piece in pieces:
        shown += detokenizer.push(piece)
        data += piece
        assert shown == data[: len(data) - unfinished(data)].decode("utf-8", "replace")
        assert detokenizer.num_chars == len(shown)


def test_text_that_might_become_a_stop_string_waits_for_the_next_token() -> None:
    detokenizer = Detokenizer(["</end>"])
    assert detokenizer.push(b"fine </e") == "fine "
    assert detokenizer.push(b"m>") == "</em>"


def test_nothing_comes_after_a_stop_string() -> None:
    detokenizer = Detokenizer(["STOP"])
    assert detokenizer.push(b"one ST") == "one "
    assert detokenizer.push(b"OP two") == ""
    assert detokenizer.push(b" three") == ""
    assert detokenizer.finish() == ""


def test_the_stop_string_itself_is_shown_on_request() -> None:
    detokenizer = Detokenizer(["STOP"], include_stop=True)
    assert detokenizer.push(b"one ST") + detokenizer.push(b"OP two") == "one STOP"


def test_an_unfinished_character_is_not_shown_at_the_end() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.push(b"a\xf0\x9f\x98") == "a"
    assert detokenizer.finish() == ""


def test_a_token_begins_after_a_character_that_it_breaks_off() -> None:
    detokenizer = Detokenizer()
    starts = []
    for data in (b"a", b"\xe6", b"\x97", b"\xa5", b"\xe6", b" b"):
        starts.append(detokenizer.start_of(data))
        detokenizer.push(data)
    assert starts == [0, 1, 1, 1, 2, 3]
