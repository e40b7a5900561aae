"""The grammar of an answer that must call: in the form of the model's family, with arguments that validate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forebay_runtime.text.grammar_source import GrammarKind, GrammarSource, lark_text, schema_text
from forebay_runtime.text.tokenizer import Tokenizer
from forebay_runtime.text.tool_formats import Tool, ToolFormat


def calls_grammar(tool_format: ToolFormat, tools: Sequence[Tool], most: int, tokenizer: Tokenizer) -> GrammarSource:
    """From one to `most` calls of these tools. GrammarError for a schema that can't be kept."""
    rules = _rules(tool_format, tools, most, tokenizer)
    return GrammarSource(GrammarKind.GRAMMAR, "\n".join(["start: calls", *rules]))


def calls_before(
    source: GrammarSource, tool_format: ToolFormat, tools: Sequence[Tool], most: int, tokenizer: Tokenizer
) -> GrammarSource:
    """Either calls or what `source` asks for."""
    rules = _rules(tool_format, tools, most, tokenizer)
    return replace(source, frame="\n".join(["start: calls | @answer", *rules]))


def _rules(tool_format: ToolFormat, tools: Sequence[Tool], most: int, tokenizer: Tokenizer) -> list[str]:
    def literal(text: str) -> str:
        return lark_text(text, tool_format.brackets, tokenizer)

    more = f" ({json.dumps(tool_format.between)} call){{0,{most - 1}}}" if most > 1 else ""
    objects = " | ".join(f"object_{i}" for i in range(len(tools)))
    rules = [
        f"calls: {literal(tool_format.before)} call{more} {literal(tool_format.after)}",
        f"call: {literal(tool_format.begin)} ({objects}) {literal(tool_format.end)}",
    ]
    for i, tool in enumerate(tools):
        head = f'{{"name": {json.dumps(tool["name"], ensure_ascii=False)}, "{tool_format.arguments_key}": '
        rules.append(f'object_{i}: {json.dumps(head)} %json {arguments_schema(tool)} "}}"')
    return rules


def arguments_schema(tool: Tool) -> str:
    """The text of the parameters' schema: an object, whatever else it says."""
    schema: dict[str, Any] = dict(tool.get("parameters") or {})
    schema.setdefault("type", "object")
    return schema_text(schema)
