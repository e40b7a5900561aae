"""Reads one call, an object with a name and arguments, character by character."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_BLANKS = " \t\r\n"
_ARGUMENTS = ("arguments", "parameters")


class NoCallError(ValueError):
    """What was read is no call."""


@dataclass(frozen=True, slots=True)
class Named:
    name: str


@dataclass(frozen=True, slots=True)
class More:
    """Of the arguments' JSON text."""

    text: str


Event = Named | More


class CallScanner:
    """`feed` returns what has become certain. Arguments go on as they come once the name is known."""

    def __init__(self) -> None:
        self.ended = False
        self._value: _Value | None = None
        self._key: str | None = None
        self._expected = "{"
        self._name: str | None = None
        self._held = ""  # arguments that came before the name
        self._has_arguments = False

    def feed(self, char: str) -> list[Event]:
        """NoCallError."""
        if self._value is not None:
            return self._go_on(self._value, char)
        if char in _BLANKS:
            return []
        match self._expected, char:
            case ("{", "{"):
                self._expected = 'key"}'
            case ('key"}' | 'key"', '"'):
                self._value = _Value(char)
            case (":", ":"):
                self._expected = "value"
            case ("value", _):
                self._value = _Value(char)
                return self._said(char)
            case (",}", ","):
                self._expected, self._key = 'key"', None
            case (",}" | 'key"}', "}"):
                return self._end()
            case _:
                raise NoCallError(f"{char!r} where {self._expected} was expected")
        return []

    def _go_on(self, value: _Value, char: str) -> list[Event]:
        if not value.takes(char):  # a number or a word ends before what follows it
            return self._close(value) + self.feed(char)
        events = self._said(char)
        return events + self._close(value) if value.ended else events

    def _said(self, char: str) -> list[Event]:
        """An object of arguments is told while it comes."""
        assert self._value is not None
        if self._key not in _ARGUMENTS or self._value.text[0] != "{":
            return []
        if self._name is None:
            self._held += char
            return []
        return [More(char)]

    def _close(self, value: _Value) -> list[Event]:
        self._value = None
        if self._key is None:
            self._key, self._expected = str(value.parsed()), ":"
            return []
        self._expected = ",}"
        if self._key in _ARGUMENTS:
            return self._arguments(value)
        if self._key == "name":
            return self._named(value.parsed())
        return []

    def _arguments(self, value: _Value) -> list[Event]:
        self._has_arguments = True
        if value.text[0] == "{":
            return []
        parsed = value.parsed()  # some write the object as a string
        self._held = parsed if isinstance(parsed, str) and parsed.strip()[:1] == "{" else "{}"
        return self._release() if self._name is not None else []

    def _named(self, name: Any) -> list[Event]:
        if not isinstance(name, str) or self._name is not None:
            raise NoCallError("a call has one name, a string")
        self._name = name
        return [Named(name), *self._release()]

    def _release(self) -> list[Event]:
        held, self._held = self._held, ""
        return [More(held)] if held else []

    def _end(self) -> list[Event]:
        if self._name is None:
            raise NoCallError("a call without a name")
        self.ended = True
        return [] if self._has_arguments else [More("{}")]


class _Value:
    """One JSON value, by its first character."""

    def __init__(self, first: str) -> None:
        self.text = first
        self.ended = False
        self._depth = int(first in "{[")
        self._in_string = first == '"'
        self._escaped = False
        self._scalar = first not in '{["'

    def takes(self, char: str) -> bool:
        """False for what comes after a scalar."""
        if self._scalar:
            if char in _BLANKS or char in ",}]":
                return False
        elif self._in_string:
            self._take_of_string(char)
        else:
            self._in_string = char == '"'
            self._depth += (char in "{[") - (char in "}]")
            self.ended = not self._depth
        self.text += char
        return True

    def parsed(self) -> Any:
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError) as e:
            raise NoCallError(f"{self.text[:40]!r} is no JSON") from e

    def _take_of_string(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False
            self.ended = not self._depth
