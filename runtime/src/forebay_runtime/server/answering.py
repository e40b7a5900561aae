"""How a chat's answer must look and how it is read: formats, tools and thoughts together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from forebay_runtime.server.constraints import Constraint, constraint_of, not_kept
from forebay_runtime.server.dialects import Plan
from forebay_runtime.server.prompts import Prompt
from forebay_runtime.server.protocol import ChatCompletionRequest
from forebay_runtime.server.tools import NamedTool
from forebay_runtime.text.answer import AnswerParser, PlainParser
from forebay_runtime.text.call_parser import CallParser
from forebay_runtime.text.grammar_source import GrammarError
from forebay_runtime.text.reasoning import BEGIN, ReasoningParser, thoughts_before
from forebay_runtime.text.tokenizer import Tokenizer
from forebay_runtime.text.tool_formats import MOST_CALLS, ToolFormat
from forebay_runtime.text.tool_grammar import calls_before, calls_grammar

_TAIL = 8  # tokens of a prompt in which a template may have begun the thoughts


@dataclass(frozen=True, slots=True)
class AnswerStyle:
    """Of one model. `thinks`: its answers may begin with thoughts."""

    tool_format: ToolFormat
    thinks: bool


def plan(asked: ChatCompletionRequest, prompt: Prompt, style: AnswerStyle, tokenizer: Tokenizer) -> Plan:
    """RequestError 400 that names what can't be kept."""
    constraint = constraint_of(asked)
    parser: Callable[[], AnswerParser] = PlainParser
    tools = asked.callable_tools
    if tools:
        most = 1 if asked.parallel_tool_calls is False or isinstance(asked.tool_choice, NamedTool) else None
        parser = partial(CallParser, style.tool_format, frozenset(tool.function.name for tool in tools), most)
        constraint = _with_calls(asked, constraint, most or MOST_CALLS, style.tool_format, tokenizer)
    if not style.thinks:
        return Plan(constraint, parser)
    thinking = tokenizer.decode(prompt.token_ids[-_TAIL:]).rstrip().endswith(BEGIN)
    if constraint is not None:
        constraint = replace(constraint, source=thoughts_before(constraint.source, tokenizer, thinking=thinking))
    return Plan(constraint, lambda: ReasoningParser(parser(), thinking=thinking))


def _with_calls(
    asked: ChatCompletionRequest,
    constraint: Constraint | None,
    most: int,
    tool_format: ToolFormat,
    tokenizer: Tokenizer,
) -> Constraint | None:
    """What must be called replaces what would have been said; what may be called stands beside it."""
    functions = [tool.function.model_dump(exclude_unset=True) for tool in asked.callable_tools]
    try:
        if asked.must_call:
            return Constraint(calls_grammar(tool_format, functions, most, tokenizer), _param_of_tools(asked))
        if constraint is not None:
            source = calls_before(constraint.source, tool_format, functions, most, tokenizer)
            return replace(constraint, source=source)
    except GrammarError as e:
        raise not_kept(_param_of_tools(asked), str(e)) from None
    return None


def _param_of_tools(asked: ChatCompletionRequest) -> str:
    """Which schema it is, where there is only one."""
    tools = asked.callable_tools
    if len(tools) > 1:
        return "tools"
    return f"tools[{(asked.tools or []).index(tools[0])}].function.parameters"
