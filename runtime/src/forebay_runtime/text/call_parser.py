"""Finds the calls in an answer, in the form of the model's family."""

from __future__ import annotations

import enum

from forebay_runtime.text.answer import ArgumentsSaid, CallBegun, Piece, Said, new_call_id
from forebay_runtime.text.call_scanner import CallScanner, Named, NoCallError
from forebay_runtime.text.detokenizer import overlap
from forebay_runtime.text.tool_formats import ToolFormat

_PUNCTUATION = " \t\r\n,;[]"


class _Mode(enum.Enum):
    SAYING = enum.auto()  # until a marker
    BEGINNING = enum.auto()  # without a marker: is it a call?
    BETWEEN = enum.auto()  # a call is to begin
    CALLING = enum.auto()
    ONLY_SAYING = enum.auto()
    DROPPING = enum.auto()  # no more calls are wanted


class CallParser:
    """`names`: the tools there are; what calls another is said, not called. `most` calls are told."""

    thought_end = 0

    def __init__(self, tool_format: ToolFormat, names: frozenset[str], most: int | None = None) -> None:
        self._format, self._names, self._most = tool_format, names, most
        self.markers = frozenset(tool_format.brackets)
        self._mode = _Mode.BEGINNING if tool_format.marker is None else _Mode.SAYING
        self._text = ""  # not read yet
        self._raw = ""  # read as part of a call that has not begun: said if it never does
        self._scanner = CallScanner()
        self._begun = False  # the call that is being read
        self._num_calls = 0
        self._has_said = False

    def push(self, text: str) -> list[Piece]:
        self._text += text
        pieces: list[Piece] = []
        while self._text and self._read(pieces):
            pass
        return pieces

    def finish(self) -> list[Piece]:
        pieces: list[Piece] = []
        if self._mode is not _Mode.DROPPING and (self._has_said or (self._raw + self._text).strip()):
            self._say(self._raw + self._text, pieces)
        self._raw = self._text = ""
        return pieces

    def _read(self, pieces: list[Piece]) -> bool:
        """Takes some of the text; False where that needs more of it."""
        match self._mode:
            case _Mode.SAYING:
                return self._read_words(pieces)
            case _Mode.BEGINNING:
                return self._read_beginning()
            case _Mode.BETWEEN:
                return self._read_between(pieces)
            case _Mode.CALLING:
                self._read_call(pieces)
            case _Mode.ONLY_SAYING:
                self._say(self._take(len(self._text)), pieces)
            case _Mode.DROPPING:
                self._text = ""
        return True

    def _read_words(self, pieces: list[Piece]) -> bool:
        marker = self._format.marker or ""
        at = self._text.find(marker)
        if at < 0:
            certain = len(self._text) - overlap(self._text, marker)
            if not self._has_said and not self._text[:certain].strip():
                return False  # blanks before a call are nothing said
            self._say(self._take(certain), pieces)
            return False
        words = self._take(at)
        if self._has_said or words.strip():
            self._say(words, pieces)
        self._raw = self._take(len(marker))
        self._mode = _Mode.BETWEEN
        return True

    def _read_beginning(self) -> bool:
        """A call begins with an object, or a list of them, perhaps after an opening."""
        rest = self._text.lstrip()
        if not rest or any(opening.startswith(rest) for opening in self._format.openings):
            return False
        calls = rest[0] in "{[" or rest.startswith(self._format.openings)
        self._mode = _Mode.BETWEEN if calls else _Mode.ONLY_SAYING
        return True

    def _read_between(self, pieces: list[Piece]) -> bool:
        brackets = self._format.brackets
        bracket = next((b for b in brackets if self._text.startswith(b)), None)
        if bracket is not None:
            self._skip(len(bracket), anew=bracket == self._format.marker)
        elif any(b.startswith(self._text) for b in brackets):
            return False
        elif self._text[0] in _PUNCTUATION:
            self._skip(1)
        elif self._text[0] != "{":
            self._give_up(pieces)
        elif self._num_calls == self._most:
            self._mode = _Mode.DROPPING
        else:
            self._scanner, self._begun, self._mode = CallScanner(), False, _Mode.CALLING
        return True

    def _skip(self, count: int, *, anew: bool = False) -> None:
        """What stands between calls is nothing said; what stands before one may yet be, if none begins."""
        skipped = self._take(count)
        if self._raw or anew or not self._num_calls:
            self._raw += skipped

    def _read_call(self, pieces: list[Piece]) -> None:
        for i, char in enumerate(self._text):
            if not self._read_char(char, pieces):
                self._take(i)
                self._give_up(pieces)
                return
            if self._scanner.ended:
                self._take(i + 1)
                self._mode = _Mode.BETWEEN
                return
        self._text = ""

    def _read_char(self, char: str, pieces: list[Piece]) -> bool:
        """False where this is no call of a tool there is."""
        try:
            events = self._scanner.feed(char)
        except NoCallError:
            return False
        if any(isinstance(event, Named) and event.name not in self._names for event in events):
            return False
        if not self._begun:
            self._raw += char
        for event in events:
            if isinstance(event, Named):
                pieces.append(CallBegun(self._num_calls, new_call_id(), event.name))
                self._num_calls += 1
                self._begun, self._raw = True, ""
            else:
                _add_arguments(self._num_calls - 1, event.text, pieces)
        return True

    def _give_up(self, pieces: list[Piece]) -> None:
        self._say(self._raw, pieces)
        self._raw = ""
        self._mode = _Mode.ONLY_SAYING if self._format.marker is None else _Mode.SAYING

    def _say(self, text: str, pieces: list[Piece]) -> None:
        if text:
            self._has_said = True
            pieces.append(Said(text))

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        return taken


def _add_arguments(index: int, text: str, pieces: list[Piece]) -> None:
    last = pieces[-1] if pieces else None
    if isinstance(last, ArgumentsSaid) and last.index == index:
        pieces[-1] = ArgumentsSaid(index, last.text + text)
    else:
        pieces.append(ArgumentsSaid(index, text))
