"""Grammars: what they allow is kept, what can't be kept is refused with its reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from forebay_runtime.text.grammar import GrammarCompiler, num_bytes
from forebay_runtime.text.grammar_source import GrammarError, GrammarKind, GrammarSource, choice, json_schema
from forebay_runtime.text.grammar_trial import GrammarTrial
from forebay_runtime.text.matcher import Words
from forebay_runtime.text.tokenizer import Tokenizer
from tests.support.grammars import allows, random_text
from tests.support.toy_text import toy_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return toy_tokenizer()


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(tokenizer, tokenizer.vocab_size)


def regex(pattern: str) -> GrammarSource:
    return GrammarSource(GrammarKind.REGEX, pattern)


def grammar(text: str) -> GrammarSource:
    return GrammarSource(GrammarKind.GRAMMAR, text)


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


SCHEMAS: list[dict[str, Any]] = [
    closed({"mixed": {"enum": [1, "a", None, {"b": [2]}, 1.5, True]}}),
    closed({'é " \\': {"const": "grüß dich \U0001f44b"}}),
    closed(
        {"a": {"type": "integer", "minimum": -3, "exclusiveMaximum": 12}, "b": {"type": "number", "multipleOf": 0.5}}
    ),
    closed({"a": {"type": "string", "pattern": "^[a-c]{2}$"}, "b": {"type": "string", "format": "date"}}),
    closed({"a": {"type": "string", "minLength": 2, "maxLength": 3}}),
    closed(
        {"a": {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 2, "maxItems": 4}}
    ),
    closed({"a": {"anyOf": [{"type": "boolean"}, {"type": "null"}, {"enum": ["x"]}]}}),
    closed({"a": {"oneOf": [closed({"kind": {"const": "x"}}), closed({"kind": {"const": "y"}})]}}),
    closed({"a": {"allOf": [{"type": "string", "maxLength": 3}, {"pattern": "^b"}]}}),
    {
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {**closed({"child": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}})}},
    },
    {"type": ["boolean", "null"]},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: json.dumps(s)[:60])
def test_texts_that_end_parse_and_validate(
    compiler: GrammarCompiler, tokenizer: Tokenizer, schema: dict[str, Any]
) -> None:
    compiled = compiler.compile(json_schema(schema))
    texts = [text for seed in range(6) if (text := random_text(compiled, tokenizer, seed)) is not None]
    assert texts
    for text in texts:
        jsonschema.validate(json.loads(text), schema)


def test_any_object_may_hold_anything_but_blanks_without_end(compiler: GrammarCompiler, tokenizer: Tokenizer) -> None:
    compiled = compiler.compile(json_schema({"type": "object"}))
    for text in ("{}", '{"a": [1, {"b": null}], "":"\\n"}'):
        assert allows(compiled, tokenizer, text)
    for text in ("[]", " {}", "{ }", '{"a":  1}', '{"a":1\n}', '{"a":NaN}', "{} "):
        assert not allows(compiled, tokenizer, text)


@pytest.mark.parametrize(
    ("source", "allowed", "barred"),
    [
        (regex("[A-F]{3}-[0-9]{2}"), ["ABC-42"], ["ABC-4", "ABC-421", "abc-42"]),
        (regex("^(yes|no)$"), ["yes", "no"], ["yesno", ""]),
        (choice(["zq-17", 'a"b\n', "é\U0001f44b", "zq-17"]), ["zq-17", 'a"b\n', "é\U0001f44b"], ["zq", ""]),
        (grammar('root ::= "total " num\nnum ::= [1-9]\n  | "no" [a-z]+'), ["total 4", "total none"], ["total 0"]),
        (grammar('start: "a" rest\nrest: /b+/'), ["ab", "abbb"], ["a"]),
        (grammar('root ::= "(" root? ")"'), ["()", "((()))"], ["(()"]),
    ],
    ids=lambda value: value.text[:30] if isinstance(value, GrammarSource) else None,
)
def test_what_else_may_be_asked_for(
    compiler: GrammarCompiler, tokenizer: Tokenizer, source: GrammarSource, allowed: list[str], barred: list[str]
) -> None:
    compiled = compiler.compile(source)
    assert [text for text in (*allowed, *barred) if allows(compiled, tokenizer, text)] == allowed


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: json_schema({"type": "notatype"}), "notatype"),
        (lambda: json_schema({"type": 123}), "type must be"),
        (lambda: json_schema({"properties": {"a": {"$ref": "#/$defs/none"}}}), "/$defs/none"),
        (lambda: json_schema({"$ref": "http://elsewhere/x"}), "http://elsewhere/x"),
        (lambda: json_schema({"enum": []}), "empty"),
        (lambda: json_schema(False), "false"),
        (lambda: json_schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (lambda: json_schema({"type": "array", "contains": {"const": 1}}), "contains"),
        (lambda: json_schema({"not": {"type": "string"}}), "not"),
        (lambda: json_schema({"type": "object", "minProperties": 2}), "minProperties"),
        (lambda: json_schema({"type": "string", "format": "ipv7"}), "ipv7"),
        (lambda: json_schema({"oneOf": [{"type": "integer"}, {"minimum": 3}]}), "oneOf"),
        (lambda: json_schema({"minLength": 5, "maxLength": 2, "type": "string"}), "minLength"),
        (lambda: json_schema({"type": "string", "pattern": "("}), "unclosed"),
        (lambda: json_schema({"type": "string", "pattern": "a(?=b)"}), "look-ahead"),
        (lambda: json_schema({"x-guidance": {"lenient": True}, "uniqueItems": True}), "uniqueItems"),
        (lambda: json_schema({"properties": {"a": {"$ref": "#"}}, "allOf": [{"$ref": "#"}]}), ""),
        (lambda: regex("("), "unclosed"),
        (lambda: regex("(a)\\1"), "backreferences"),
        (lambda: regex("(" * 5000 + "a" + ")" * 5000), ""),
        (lambda: grammar('root ::= "a'), "end of input"),
        (lambda: grammar("root ::= nothing"), "nothing"),
        (lambda: grammar("root ::= root"), ""),
        (lambda: grammar('root ::= "a"\nroot ::= "b"'), "twice"),
        (lambda: grammar('other ::= "a"'), "root"),
        (lambda: grammar("start: missing"), "missing"),
        (lambda: grammar("root ::= " + "(" * 5000), "recursion"),
        (lambda: regex("a" * 300_000), "300000 characters"),
    ],
)
def test_what_can_not_be_kept_is_refused_in_one_line(
    compiler: GrammarCompiler, make: Callable[[], GrammarSource], reason: str
) -> None:
    with pytest.raises(GrammarError) as refusal:
        compiler.compile(make())
    assert reason in str(refusal.value)
    assert str(refusal.value).strip()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) <= 300


def test_a_grammar_that_takes_too_long_ends_its_trial_and_nothing_else(tokenizer: Tokenizer) -> None:
    words = Words([tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)], [], [0], tokenizer.vocab_size)
    trial = GrammarTrial(words, cpu_seconds=1)
    with pytest.raises(GrammarError, match="more than 1 s"):
        trial.translate(json_schema({"type": "integer", "multipleOf": 1_000_003}))
    assert trial.translate(json_schema({"type": "integer"}))
    trial.close()


def test_a_grammar_is_compiled_once(compiler: GrammarCompiler) -> None:
    source = regex("once")
    assert compiler.compile(source) is compiler.compile(regex("once"))


def test_the_grammars_that_are_kept_are_bounded_in_bytes_and_the_latest_stay(tokenizer: Tokenizer) -> None:
    small, large = choice(["a"]), choice(["a" * 50_000])
    bounded = GrammarCompiler(tokenizer, tokenizer.vocab_size, max_bytes=num_bytes(large) + num_bytes(small))
    others = [choice([f"{i}"]) for i in range(3)]
    for source in (*others, small, large):
        bounded.compile(source)
        assert bounded.num_bytes <= num_bytes(large) + num_bytes(small)
    assert [source for source in (*others, small, large) if bounded.known(source)] == [small, large]
    bounded.compile(small)
    assert bounded.num_bytes == num_bytes(small) + num_bytes(large)


def test_a_model_that_never_ends_an_answer_keeps_no_grammar() -> None:
    endless = toy_tokenizer()
    endless.eos_token_ids = frozenset()
    with pytest.raises(GrammarError, match="no token that ends"):
        GrammarCompiler(endless, endless.vocab_size).compile(regex("a"))
