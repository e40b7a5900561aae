"""What of a request says how the answer must look: OpenAI's response_format, vLLM's and others' words for the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from forebay_runtime.request import RequestError
from forebay_runtime.server.protocol import Constrained
from forebay_runtime.text.grammar_source import GrammarError, GrammarKind, GrammarSource, choice, json_schema

_ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Constraint:
    """`param`: the field that asks for it."""

    source: GrammarSource
    param: str


def constraint_of(wire: Constrained) -> Constraint | None:
    """RequestError 400 where a field is none of its kind, or where two fields ask."""
    found = [c for c in (_response_format(wire.response_format), _structured_outputs(wire.structured_outputs)) if c]
    for name, read in _FIELDS.items():
        value = getattr(wire, name)
        if value is not None:
            found.append(read(value, name))
    if len(found) > 1:
        first, second = found[0].param, found[1].param
        raise _invalid(second, f"{first} says already how the answer must look; only one field may")
    return found[0] if found else None


def not_kept(param: str, reason: str) -> RequestError:
    return RequestError(f"{param} can't be kept: {reason}.", code="invalid_grammar", param=param)


def _response_format(form: Any) -> Constraint | None:
    if form is None:
        return None
    if not isinstance(form, dict):
        raise _invalid("response_format", "it must be an object", "invalid_type")
    match form.get("type"):
        case "text":
            return None
        case "json_object":
            schema = form.get("schema")  # llama.cpp's extension
            given = _ANY_OBJECT if schema is None else schema
            return _json(given, "response_format" if schema is None else "response_format.schema")
        case "json_schema":
            return _named_schema(form.get("json_schema"))
        case "regex":
            return _regex(form.get("value", form.get("pattern")), "response_format.value")
        case "grammar":
            return _grammar(form.get("value", form.get("grammar")), "response_format.value")
        case kind:
            raise _invalid(
                "response_format.type", f"{str(kind)[:64]!r} is none of text, json_object, json_schema, regex, grammar"
            )


def _named_schema(given: Any) -> Constraint:
    param = "response_format.json_schema"
    if not isinstance(given, dict):
        raise _invalid(param, "it must be an object with a name and a schema", "invalid_type")
    if not isinstance(given.get("name", ""), str):
        raise _invalid(f"{param}.name", "it must be a string", "invalid_type")
    if given.get("schema") is None:
        raise _invalid(f"{param}.schema", "it is missing", "missing_required_parameter")
    if not isinstance(given["schema"], dict):
        raise _invalid(f"{param}.schema", "it must be an object", "invalid_type")
    return _json(given["schema"], f"{param}.schema")


def _structured_outputs(given: Any) -> Constraint | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise _invalid("structured_outputs", "it must be an object", "invalid_type")
    asked = {name: value for name, value in given.items() if value is not None and name not in _HINTS}
    unknown = [name for name in asked if name not in _STRUCTURED]
    if unknown:
        raise _invalid(f"structured_outputs.{unknown[0][:64]}", "it is not supported", "unsupported_parameter")
    if len(asked) != 1:
        raise _invalid("structured_outputs", f"it must have exactly one of {', '.join(_STRUCTURED)}")
    ((name, value),) = asked.items()
    return _STRUCTURED[name](value, f"structured_outputs.{name}")


def _json(value: Any, param: str) -> Constraint:
    """A schema, or its text."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as e:
            raise _invalid(param, f"it is no JSON: {e}") from None
    if not isinstance(value, dict | bool):
        raise _invalid(param, "it must be a JSON schema: an object", "invalid_type")
    try:
        return Constraint(json_schema(value), param)
    except GrammarError as e:
        raise not_kept(param, str(e)) from None
    except RecursionError:
        raise not_kept(param, "it is nested too deeply") from None


def _regex(value: Any, param: str) -> Constraint:
    return Constraint(GrammarSource(GrammarKind.REGEX, _text(value, param)), param)


def _grammar(value: Any, param: str) -> Constraint:
    return Constraint(GrammarSource(GrammarKind.GRAMMAR, _text(value, param)), param)


def _choice(value: Any, param: str) -> Constraint:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _invalid(param, "it must be a list of strings", "invalid_type")
    if not value:
        raise _invalid(param, "it must not be empty")
    return Constraint(choice(value), param)


def _json_object(value: Any, param: str) -> Constraint:
    if value is not True:
        raise _invalid(param, "it must be true, or left out")
    return _json(_ANY_OBJECT, param)


def _text(value: Any, param: str) -> str:
    if not isinstance(value, str):
        raise _invalid(param, "it must be a string", "invalid_type")
    if not value:
        raise _invalid(param, "it must not be empty")
    return value


def _invalid(param: str, message: str, code: str = "invalid_value") -> RequestError:
    return RequestError(f"{param}: {message}.", code=code, param=param)


_Reader = Callable[[Any, str], Constraint]
_STRUCTURED: dict[str, _Reader] = {
    "json": _json,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "json_object": _json_object,
}
_HINTS = frozenset({"disable_any_whitespace", "disable_fallback"})  # true of every answer here
_FIELDS: dict[str, _Reader] = {
    "guided_json": _json,
    "guided_regex": _regex,
    "guided_choice": _choice,
    "guided_grammar": _grammar,
    "json_schema": _json,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "ebnf": _grammar,
}
