"""Chat templates: messages to the ids of a prompt. The template may write control tokens, what users say may not.

transformers renders, in its sandbox.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from forebay_runtime.request import RequestError
from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.template_engine import import_renderer
from forebay_runtime.text.tokenizer import Tokenizer

Message = Mapping[str, Any]
REFUSALS = (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError, ArithmeticError)
# Noncharacters: Unicode keeps them for such inner use.
CUT = "\ufdd0"  # no token may span its two sides
_END = "\ufdd1"  # of a message that is to be continued
_INNER = str.maketrans("", "", CUT + _END)
# What a client may not set beside its messages: the renderer's own arguments, and what only the model's files say.
RESERVED = frozenset(
    {
        *("messages", "conversations", "chat_template", "return_assistant_tokens_mask", "continue_final_message"),
        *("tools", "bos_token", "eos_token", "add_generation_prompt"),
    }
)


class ChatTemplate:
    """Renders one model's template. TokenizerError if the template does not compile."""

    def __init__(self, template: str, tokenizer: Tokenizer) -> None:
        self._render_template = import_renderer()
        self._tokenizer = tokenizer
        self._control = ControlTokens(tokenizer.control_tokens, tokenizer.normalize)
        self._special = {"bos_token": tokenizer.bos_token or "", "eos_token": tokenizer.eos_token or ""}
        self._template = template
        try:
            self._render([{"role": "user", "content": ""}], {})
        except jinja2.TemplateSyntaxError as e:
            raise TokenizerError(f"the model's chat template does not compile: {e}") from e
        except REFUSALS:
            pass  # it compiles, and is right to want more than this

    def encode(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, Any] | None = None,
        *,
        continue_final: bool = False,
    ) -> list[int]:
        """The prompt's ids. RequestError 400 where the template refuses the messages."""
        text = self.render(messages, variables, continue_final=continue_final)
        return self._tokenizer.encode_pieces(text.split(CUT))

    def render(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, Any] | None = None,
        *,
        continue_final: bool = False,
    ) -> str:
        """The prompt's text, with CUT wherever control tokens in the messages were taken apart.

        `continue_final`: it ends where the last message's content does, for the model to go on with.
        """
        given = self._control.take_apart(list(messages))
        safe = {"add_generation_prompt": not continue_final, **self._control.take_apart(dict(variables or {}))}
        if continue_final:
            given[-1] = given[-1] | {"content": given[-1]["content"] + _END}
        try:
            text = self._render(given, safe)
        except REFUSALS as e:
            raise RequestError(
                f"This model's chat template refuses the messages: {e}", code="invalid_messages", param="messages"
            ) from e
        if not continue_final:
            return text
        text, end, _ = text.rpartition(_END)
        if not end:
            message = "continue_final_message: this model's chat template does not write the last message as it is."
            raise RequestError(message, code="invalid_messages", param="continue_final_message")
        return text

    def _render(self, messages: list[Message], variables: Mapping[str, Any]) -> str:
        given = {"add_generation_prompt": True, **self._special, **variables}
        return str(self._render_template([messages], chat_template=self._template, **given)[0][0])


class ControlTokens:
    """Finds control tokens in what users say and cuts them, so that the tokenizer reads them as plain text.

    `normalize`: what the tokenizer does to text before it looks for control tokens, if it does anything.
    """

    def __init__(self, tokens: frozenset[str], normalize: Callable[[str], str] | None = None) -> None:
        self._tokens = sorted(tokens)
        self._normalize = normalize
        self._first = re.compile("|".join(sorted({re.escape(t[0]) for t in tokens if t})) or "(?!)")
        self._beginnings = frozenset(t[:n] for t in tokens for n in range(1, len(t)))
        self._longest = max(map(len, tokens), default=0)

    def take_apart(self, value: Any) -> Any:
        """`value` with every string in it cut where it could make a control token.

        So are the keys of mappings, except for names, by which templates look things up.
        """
        if isinstance(value, str):
            return self._take_apart_text(value.translate(_INNER))
        if isinstance(value, Mapping):
            return {k if str(k).isidentifier() else self.take_apart(k): self.take_apart(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.take_apart(v) for v in value]
        return value

    def _take_apart_text(self, text: str) -> str:
        if self._normalize is not None and self._is_made_by_normalizing(text, self._normalize):
            return CUT.join(text)
        if not self._first.search(text):
            return text
        cuts: set[int] = set()
        for token in self._tokens:
            at = text.find(token)
            while at >= 0:
                cuts.update(range(at, at + len(token) + 1))
                at = text.find(token, at + 1)
        if any(text[at:] in self._beginnings for at in range(max(0, len(text) - self._longest), len(text))):
            cuts.add(len(text))  # with what the template writes next it may become a control token
        if not cuts:
            return text
        return CUT.join(text[a:b] for a, b in itertools.pairwise([0, *sorted(cuts), len(text)]))

    def _is_made_by_normalizing(self, text: str, normalize: Callable[[str], str]) -> bool:
        normal = normalize(text)
        return normal != text and any(normalize(token) in normal for token in self._tokens)
