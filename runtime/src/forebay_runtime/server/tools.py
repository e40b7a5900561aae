"""Wire models of tools, and of which may or must be called."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from forebay_runtime.server.wire import Wire


class ToolFunction(Wire):
    model_config = ConfigDict(strict=True, extra="allow")  # templates read more than we do

    name: str = Field(pattern=r"^[A-Za-z0-9_.:/-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        if parameters is not None and parameters.get("type", "object") != "object":
            raise ValueError("must be the schema of an object")
        return parameters


class ChatTool(Wire):
    model_config = ConfigDict(strict=True, extra="allow")

    type: Literal["function"]
    function: ToolFunction


class FunctionName(Wire):
    name: str


class NamedTool(Wire):
    type: Literal["function"]
    function: FunctionName


class AllowedTools(Wire):
    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1)


class AllowedToolsChoice(Wire):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedToolsChoice
