"""From the wire's prompts and messages to token ids, refusing early what can never fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forebay_runtime.request import RequestError
from forebay_runtime.server.conversation import Conversation
from forebay_runtime.text.chat import RESERVED, ChatTemplate
from forebay_runtime.text.tokenizer import Tokenizer
from forebay_runtime.text.tool_formats import ToolFormat
from forebay_runtime.text.tool_prompt import ToolPrompter

_MAX_PROMPTS = 2048


@dataclass(frozen=True, slots=True)
class Prompt:
    token_ids: tuple[int, ...]
    text: str | None = None  # as the client wrote it; None where it gave ids or messages


def num_prompts(prompt: object) -> int:
    """How many prompts these are: a text, a list of ids, or a list of either. Cheap: looks into none."""
    return len(prompt) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else 1


class PromptReader:
    """Of one model. Thread-safe, so that long texts can be read off the event loop.

    `answered`: the model goes on from its prompts, which is told where one leaves no room for that.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        tool_format: ToolFormat,
        vocab_size: int,
        max_model_len: int,
        *,
        answered: bool = True,
    ) -> None:
        self._tokenizer, self._template = tokenizer, template
        self._prompter = None if template is None else ToolPrompter(template, tool_format)
        self._vocab_size, self._max_model_len, self._answered = vocab_size, max_model_len, answered
        # No text longer than this fits; twice, because a normalizer may shorten it.
        self._max_chars = 2 * max_model_len * tokenizer.longest_piece

    def chat(self, chat: Conversation) -> Prompt:
        return Prompt(self._checked(self.chat_ids(chat), "messages"))

    def chat_ids(self, chat: Conversation) -> list[int]:
        if self._template is None or self._prompter is None:
            raise RequestError(
                "This model has no chat template; use /v1/completions.", code="no_chat_template", param="messages"
            )
        tools = [tool.model_dump(exclude_unset=True) for tool in chat.callable_tools]
        given, told = self._prompter.prepared([m.for_template() for m in chat.messages], tools)
        self._check_length(sum(len(m["content"]) for m in given), "messages")
        return self._template.encode(given, variables_of(chat) | told, continue_final=bool(chat.continue_final_message))

    def text(self, text: str, *, add_special_tokens: bool = True) -> Prompt:
        self._check_length(len(text), "prompt")
        token_ids = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return Prompt(self._checked(token_ids, "prompt"), text)

    def completion_prompts(self, prompt: object) -> list[Prompt]:
        """A text, a list of ids, or a list of either."""
        if isinstance(prompt, str):
            return [self.text(prompt)]
        if not isinstance(prompt, list) or not prompt:
            raise _invalid("prompt must be a text, a list of token ids, or a list of either, and not empty.")
        if len(prompt) > _MAX_PROMPTS and not isinstance(prompt[0], int):
            raise _invalid(f"prompt holds {len(prompt)} prompts; at most {_MAX_PROMPTS} are taken.")
        if isinstance(prompt[0], str | list):
            return [self.text(p) if isinstance(p, str) else self._ids(p) for p in prompt]
        return [self._ids(prompt)]

    def _ids(self, ids: object) -> Prompt:
        if not isinstance(ids, list) or not ids:
            raise _invalid("prompt must hold texts or lists of token ids, none of them empty.")
        if len(ids) >= self._max_model_len:
            raise self._too_long(f"has {len(ids)}", "prompt")
        for i in ids:
            if type(i) is not int or not 0 <= i < self._vocab_size:
                raise _invalid(f"prompt: {str(i)[:64]} is no token id of this model, which has {self._vocab_size}.")
        return Prompt(self._checked(ids, "prompt"))

    def _checked(self, token_ids: list[int], param: str) -> tuple[int, ...]:
        if not token_ids:
            raise _invalid(f"{param} holds no tokens.")
        if len(token_ids) >= self._max_model_len:
            raise self._too_long(f"has {len(token_ids)}", param)
        return tuple(token_ids)

    def _check_length(self, num_chars: int, param: str) -> None:
        if num_chars > self._max_chars:
            raise self._too_long(f"of {num_chars} characters has more than {2 * self._max_model_len}", param)

    def _too_long(self, size: str, param: str) -> RequestError:
        if self._answered:
            most = f"This model's maximum context length is {self._max_model_len} tokens"
            message = (
                f"{most}, but the prompt {size} tokens, and the answer needs at least 1. Please shorten the prompt."
            )
        else:
            most = f"This model makes vectors of up to {self._max_model_len - 1} tokens"
            message = f"{most}, but the prompt {size} tokens. Please shorten the prompt."
        return RequestError(message, code="context_length_exceeded", param=param)


def variables_of(chat: Conversation) -> dict[str, Any]:
    """What the template is given beside the messages. RequestError for what isn't the client's to give."""
    variables = dict(chat.chat_template_kwargs or {})
    reserved = next((name for name in variables if name in RESERVED), None)
    if reserved is not None:
        param = f"chat_template_kwargs.{reserved}"
        raise RequestError(f"{param}: is not for clients to set.", code="invalid_value", param=param)
    if chat.reasoning_effort is not None:
        variables["reasoning_effort"] = chat.reasoning_effort
    if chat.add_generation_prompt is not None:
        variables["add_generation_prompt"] = chat.add_generation_prompt
    return variables


def _invalid(message: str) -> RequestError:
    return RequestError(message, code="invalid_value", param="prompt")
