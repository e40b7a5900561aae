"""Calls and thoughts in a model's text, however the text is cut."""

from __future__ import annotations

import pytest

from forebay_runtime.text.answer import Answer, AnswerParser, answer_of
from forebay_runtime.text.call_parser import CallParser
from forebay_runtime.text.reasoning import ReasoningParser
from forebay_runtime.text.tool_formats import FORMATS, GEMMA, HERMES, LLAMA3, MISTRAL, format_of

NAMES = frozenset({"f", "set_lamp"})


def parsed(parser: AnswerParser, text: str, cut: int) -> Answer:
    pieces = [piece for i in range(0, len(text), cut) for piece in parser.push(text[i : i + cut])]
    return answer_of([*pieces, *parser.finish()])


def told(answer: Answer) -> tuple[str, list[tuple[str, str]]]:
    assert len({call.call_id for call in answer.calls}) == len(answer.calls)
    return answer.said, [(call.name, call.arguments) for call in answer.calls]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("family", "text", "said", "calls"),
    [
        ("hermes", "Only words.", "Only words.", []),
        ("hermes", "a <tool b", "a <tool b", []),
        (
            "hermes",
            'Hi <tool_call>\n{"name": "f", "arguments": {"a": "}\\"</tool_call>"}}\n</tool_call>\n'
            '<tool_call>\n{"arguments": {"x":[1]}, "name": "set_lamp"}\n</tool_call> bye',
            "Hi bye",
            [("f", '{"a": "}\\"</tool_call>"}'), ("set_lamp", '{"x":[1]}')],
        ),
        ("hermes", '\n\n<tool_call>\n{"name": "f"}', "", [("f", "{}")]),
        ("hermes", '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>', "", [("f", '{"a":1}')]),
        ("hermes", '<tool_call>{"name":"f","arguments":{"a"', "", [("f", '{"a"')]),
        ("hermes", "<tool_call>\nnope", "<tool_call>\nnope", []),
        ("hermes", '<tool_call>{"name":"zz","arguments":{}}', '<tool_call>{"name":"zz","arguments":{}}', []),
        ("hermes", '<tool_call>{"name":5}', '<tool_call>{"name":5}', []),
        (
            "llama3",
            '{"name": "f", "parameters": {"a": 1}}; {"name": "set_lamp", "parameters": {}}',
            "",
            [("f", '{"a": 1}'), ("set_lamp", "{}")],
        ),
        ("llama3", '<|python_tag|>{"name": "f", "parameters": {"a": 1}}', "", [("f", '{"a": 1}')]),
        ("llama3", '{"a": 5}', '{"a": 5}', []),
        ("llama3", 'Well {"name": "f"}', 'Well {"name": "f"}', []),
        ("gemma", '```json\n{"name": "f", "parameters": {"a": 1}}\n```', "", [("f", '{"a": 1}')]),
        ("gemma", '[{"name": "f", "parameters": {"a": 1}},{"name":"f"}]', "", [("f", '{"a": 1}'), ("f", "{}")]),
        ("gemma", "```python\nx", "```python\nx", []),
        (
            "mistral",
            'x[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id":"99"}, {"name":"f","arguments":null}]',
            "x",
            [("f", '{"a": 1}'), ("f", "{}")],
        ),
    ],
)
def test_calls(family: str, text: str, said: str, calls: list[tuple[str, str]], cut: int) -> None:
    assert told(parsed(CallParser(FORMATS[family], NAMES), text, cut)) == (said, calls)


@pytest.mark.parametrize("family", FORMATS)
def test_each_family_reads_what_it_writes(family: str) -> None:
    calls = [("f", {"a": "é {"}), ("set_lamp", {})]
    text = FORMATS[family].write(calls)
    assert told(parsed(CallParser(FORMATS[family], NAMES), text, 5)) == (
        "",
        [("f", '{"a": "é {"}'), ("set_lamp", "{}")],
    )


def test_no_more_calls_are_told_than_are_wanted() -> None:
    text = HERMES.write([("f", {}), ("f", {}), ("f", {})])
    assert len(parsed(CallParser(HERMES, NAMES, most=1), text, 4).calls) == 1


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("thinking", "text", "thought", "said", "num_calls"),
    [
        (False, "<think>\nhm </thi\n</think>\n\nHello", "hm </thi", "Hello", 0),
        (True, "hm</think>x", "hm", "x", 0),
        (False, "plain", "", "plain", 0),
        (True, "never ends", "never ends", "", 0),
        (False, ' <think></think>\n<tool_call>{"name":"f"}', "", "", 1),
        (False, "<thin", "", "<thin", 0),
        (False, "", "", "", 0),
    ],
)
def test_thoughts(thinking: bool, text: str, thought: str, said: str, num_calls: int, cut: int) -> None:
    answer = parsed(ReasoningParser(CallParser(HERMES, NAMES), thinking=thinking), text, cut)
    assert (answer.thought, answer.said, len(answer.calls)) == (thought, said, num_calls)


@pytest.mark.parametrize("cut", [1, 3, 10_000])
@pytest.mark.parametrize(
    ("thinking", "text", "end"),
    [
        (False, "\n<think>hm</think>\n\nHello", len("\n<think>hm</think>")),
        (True, "hm</think>x</think>", len("hm</think>")),
        (True, "never ends", None),
        (False, "<think>never ends", None),
        (False, "plain</think>", 0),
        (False, "<thin", 0),
    ],
)
def test_where_thoughts_end(thinking: bool, text: str, end: int | None, cut: int) -> None:
    parser = ReasoningParser(CallParser(HERMES, NAMES), thinking=thinking)
    parsed(parser, text, cut)
    assert parser.thought_end == end or (end is None and parser.thought_end > len(text))


def test_the_family_is_told_by_the_chat_template() -> None:
    assert format_of("{{ '[TOOL_CALLS]' }}") is MISTRAL
    assert format_of("for each call <tool_call></tool_call>") is HERMES
    assert format_of("<|python_tag|>") is LLAMA3
    assert format_of("<start_of_turn>") is GEMMA
    assert format_of(None) is HERMES
