"""The wire model of what a chat's prompt is made of."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from forebay_runtime.server.chat_messages import Message
from forebay_runtime.server.tools import AllowedToolsChoice, ChatTool, NamedTool, ToolChoice
from forebay_runtime.server.wire import Wire, at_fault


class Conversation(Wire):
    """Messages, the tools there are, and how the template is to put them."""

    messages: list[Message] = Field(min_length=1)
    tools: list[ChatTool] | None = Field(None, max_length=128)
    tool_choice: ToolChoice | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None

    @model_validator(mode="after")
    def _check_tools(self) -> Self:
        names = [tool.function.name for tool in self.tools or ()]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise at_fault(f"tools[{i}].function.name", f"{name!r} is there twice")
        missing = [name for name in self._chosen_names if name not in names]
        if missing:
            raise at_fault("tool_choice", f"there is no tool {missing[0][:64]!r}")
        if self.must_call and not names:
            raise at_fault("tool_choice", "only together with tools")
        return self

    @property
    def callable_tools(self) -> list[ChatTool]:
        """Those that the answer may call."""
        if self.tool_choice == "none":
            return []
        chosen = self._chosen_names
        return [tool for tool in self.tools or () if not chosen or tool.function.name in chosen]

    @property
    def must_call(self) -> bool:
        choice = self.tool_choice
        if isinstance(choice, AllowedToolsChoice):
            return choice.allowed_tools.mode == "required"
        return choice == "required" or isinstance(choice, NamedTool)

    @property
    def _chosen_names(self) -> list[str]:
        match self.tool_choice:
            case NamedTool(function=function):
                return [function.name]
            case AllowedToolsChoice(allowed_tools=allowed):
                return [tool.function.name for tool in allowed.tools]
        return []

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if self.continue_final_message and self.add_generation_prompt:
            raise at_fault("continue_final_message", "not together with add_generation_prompt true")
        if self.continue_final_message and self.messages[-1].content is None:
            raise at_fault("continue_final_message", "the last message has no content")
        return self
