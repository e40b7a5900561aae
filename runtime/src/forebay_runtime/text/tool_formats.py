"""How model families write calls of tools. All write JSON objects with a name and arguments; the rest differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tool = Mapping[str, Any]  # OpenAI's: {"name", "description", "parameters"}
MOST_CALLS = 8  # in one answer that is forced to call


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """Calls are written `before + begin object end + between + begin object end … + after`.

    `marker` announces them in the midst of an answer; without one only an answer that begins as a call is one, perhaps
    with one of `openings` before it.
    """

    name: str
    arguments_key: str
    marker: str | None = None
    begin: str = ""
    end: str = ""
    between: str = "\n"
    before: str = ""
    after: str = ""
    openings: tuple[str, ...] = ()

    @property
    def brackets(self) -> tuple[str, ...]:
        """What may stand between two calls, beside blanks and punctuation."""
        own = (self.marker or "", self.begin.strip(), self.end.strip(), *self.openings, "```")
        return tuple(text for text in own if text)

    def write(self, calls: Sequence[tuple[str, Any]]) -> str:
        """(name, arguments) of each call."""
        written = [
            f"{self.begin}{json.dumps({'name': name, self.arguments_key: arguments}, ensure_ascii=False)}{self.end}"
            for name, arguments in calls
        ]
        return f"{self.before}{self.between.join(written)}{self.after}"

    def instructions(self, tools: Sequence[Tool]) -> str:
        """For models whose template has no place for tools."""
        described = "\n".join(json.dumps({"type": "function", "function": tool}, ensure_ascii=False) for tool in tools)
        example = f'{self.before}{self.begin}{{"name": <function-name>, "{self.arguments_key}": <arguments-object>}}'
        return (
            "You may call one or more functions to help with the user's request. These are their signatures:\n"
            f"<tools>\n{described}\n</tools>\n"
            f"To call one, answer with this and nothing else:\n{example}{self.end}{self.after}"
        )


HERMES = ToolFormat("hermes", "arguments", "<tool_call>", "<tool_call>\n", "\n</tool_call>")
MISTRAL = ToolFormat("mistral", "arguments", "[TOOL_CALLS]", before="[TOOL_CALLS][", between=", ", after="]")
LLAMA3 = ToolFormat("llama3", "parameters", between="; ", openings=("<|python_tag|>",))
GEMMA = ToolFormat("gemma", "parameters", openings=("```json", "```tool_call", "```tool_code"))
FORMATS = {tool_format.name: tool_format for tool_format in (HERMES, MISTRAL, LLAMA3, GEMMA)}


def format_of(template: str | None) -> ToolFormat:
    """Which one a chat template teaches; Hermes' where it teaches none."""
    told = template or ""
    if "[TOOL_CALLS]" in told:
        return MISTRAL
    if "<tool_call>" in told:
        return HERMES
    if "<|python_tag|>" in told or "<|eom_id|>" in told or ('"parameters"' in told and "<|eot_id|>" in told):
        return LLAMA3
    if "<start_of_turn>" in told:
        return GEMMA
    return HERMES
