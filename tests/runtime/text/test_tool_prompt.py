"""What a model is told of tools, with and without a place for them in its template."""

from __future__ import annotations

import json
from typing import Any

from forebay_runtime.text.chat import ChatTemplate
from forebay_runtime.text.tool_formats import HERMES
from forebay_runtime.text.tool_prompt import ToolPrompter
from tests.support.toy_text import toy_template, toy_tokenizer

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
KNOWING = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "x"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
    },
    {"role": "tool", "content": "42", "tool_call_id": "1"},
    {"role": "tool", "content": "43", "tool_call_id": "2"},
]


def test_a_template_that_knows_tools_is_given_them() -> None:
    prompter = ToolPrompter(ChatTemplate(KNOWING, toy_tokenizer()), HERMES)
    assert prompter.prepared(HISTORY, TOOLS) == (HISTORY, {"tools": TOOLS})
    assert prompter.prepared(HISTORY, []) == (HISTORY, {})


def test_another_is_told_in_words() -> None:
    prompter = ToolPrompter(toy_template(toy_tokenizer()), HERMES)
    messages, variables = prompter.prepared(HISTORY, TOOLS)
    assert not variables
    system, user, called, results = messages
    assert json.dumps(TOOLS[0]) in system["content"]
    assert user == HISTORY[0]
    assert called == {"role": "assistant", "content": HERMES.write([("f", {"a": 1})])}
    assert (results["role"], results["content"].count("<tool_response>")) == ("user", 2)


def test_a_system_message_keeps_its_words() -> None:
    prompter = ToolPrompter(toy_template(toy_tokenizer()), HERMES)
    (system, _), _ = prompter.prepared([{"role": "system", "content": "Be brief."}, HISTORY[0]], TOOLS)
    assert system["content"].startswith("Be brief.\n\n")
