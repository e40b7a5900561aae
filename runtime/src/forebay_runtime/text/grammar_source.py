"""What clients ask an answer to look like, as data, and its translation to the one language that llguidance reads."""

from __future__ import annotations

import enum
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forebay_runtime.text.tokenizer import Tokenizer

MAX_SOURCE = 256 << 10  # characters
# Weak models fill an answer with blanks where they may; a blank after a separator is all that is allowed.
JSON_OPTIONS = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
    "coerce_one_of": False,
    "lenient": False,
}
_VALUES = frozenset({"const", "enum", "default", "examples"})  # keywords that hold values, not schemas
_RULE = re.compile(r"^[ \t]*([\w-]+)[ \t]*::=", re.MULTILINE)
_LATER_ALTERNATIVE = re.compile(r"^([^#\n]*?)[ \t]*\n(?:[ \t]*\n)*[ \t]*(?=\|)", re.MULTILINE)


class GrammarError(ValueError):
    """The client's fault: this is no grammar, or not one that can be kept."""


class GrammarKind(enum.Enum):
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    GRAMMAR = "grammar"  # Lark, as llguidance reads it, or GBNF


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """Whole texts that match it are the answers it allows.

    `frame`: Lark rules around it, in which it is called @answer.
    """

    kind: GrammarKind
    text: str
    frame: str | None = None


def json_schema(schema: dict[str, Any] | bool) -> GrammarSource:
    return GrammarSource(GrammarKind.JSON_SCHEMA, schema_text(schema))


def schema_text(schema: dict[str, Any] | bool) -> str:
    """The schema with our options. GrammarError where it wants distinct keys counted, which no automaton does."""
    given = schema if isinstance(schema, dict) else {"allOf": [schema]}
    for part in _schemas(given):
        least, required = part.get("minProperties", 0), part.get("required")
        if isinstance(least, int) and least > max(1, len(required) if isinstance(required, list) else 0):
            raise GrammarError("minProperties of more than 1 is kept only where as many properties are required")
    return json.dumps({**given, "x-guidance": JSON_OPTIONS})


def choice(texts: Sequence[str]) -> GrammarSource:
    """One of the texts."""
    alternatives = " | ".join(json.dumps(text) for text in dict.fromkeys(texts))
    return GrammarSource(GrammarKind.GRAMMAR, f"start: CHOICE\nCHOICE: {alternatives}")


def lark_text(text: str, markers: Iterable[str], tokenizer: Tokenizer) -> str:
    """Lark for a text. A marker in it that is a control token can only come as that token; nothing for no text."""
    special = {m: min(ids) for m in markers if (ids := tokenizer.ids_of({m}) & tokenizer.special_ids)}
    if not special:
        return json.dumps(text) if text else ""
    parts = re.split("(" + "|".join(map(re.escape, special)) + ")", text)
    return " ".join(f"<[{special[part]}]>" if part in special else json.dumps(part) for part in parts if part)


def translated(source: GrammarSource) -> str:
    """llguidance's own form. May take seconds. GrammarError."""
    from llguidance import LLMatcher

    size = len(source.text) + len(source.frame or "")
    if size > MAX_SOURCE:
        raise GrammarError(f"it has {size} characters; at most {MAX_SOURCE} are taken")
    try:
        match source.kind:
            case GrammarKind.JSON_SCHEMA:
                grammar = LLMatcher.grammar_from_json_schema(source.text)
            case GrammarKind.REGEX:
                grammar = LLMatcher.grammar_from_regex(source.text)
            case GrammarKind.GRAMMAR:
                grammar = LLMatcher.grammar_from_lark(_lark(source.text))
    except ValueError as e:
        raise GrammarError(one_line(str(e))) from e
    return str(grammar) if source.frame is None else _framed(str(grammar), source.frame)


def _framed(grammar: str, frame: str) -> str:
    inner = json.loads(grammar)["grammars"][0] if grammar.startswith("{") else {"lark_grammar": grammar}
    return json.dumps({"grammars": [{"lark_grammar": frame}, inner | {"name": "answer"}]})


def one_line(text: str) -> str:
    """The reason, without the excerpt of our translation that llguidance puts below it."""
    words = text.split("\n   1 |")[0].replace("<non-verbose/>", "").split()
    return " ".join(words)[:300]


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for key, part in value.items():
            if key not in _VALUES:
                yield from _schemas(part)
    elif isinstance(value, list):
        for part in value:
            yield from _schemas(part)


def _lark(text: str) -> str:
    from llguidance.gbnf_to_lark import gbnf_to_lark

    if "::=" not in text:
        return text
    twice = [name for name, times in Counter(_RULE.findall(text)).items() if times > 1]
    if twice:
        raise GrammarError(f"the rule {twice[0]} is there twice")
    try:
        # a rule may go on with a line that begins with |, as in other dialects of GBNF
        return str(gbnf_to_lark(_LATER_ALTERNATIVE.sub(r"\1 ", text)))
    except Exception as e:  # it raises bare Exception
        raise GrammarError(one_line(str(e))) from e
