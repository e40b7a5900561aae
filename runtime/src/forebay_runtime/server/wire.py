"""How bodies are read. Strict types: "10" is no number and 1.5 no count.

Every optional field may be null, which means the same as leaving it out. Unknown fields are borne, but heeded.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from forebay_runtime.request import RequestError
from forebay_runtime.server.unknown_fields import heed

Model = TypeVar("Model", bound=BaseModel)


class Wire(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


def parse(model: type[Model], body: object) -> Model:
    """RequestError 400 that names the first field at fault."""
    try:
        wire = model.model_validate(body)
    except ValidationError as e:
        raise _request_error(e.errors(include_url=False, include_input=False)[0], body) from None
    if isinstance(body, dict):
        heed(model, body)
    return wire


def at_fault(param: str, message: str) -> PydanticCustomError:
    """For rules about several fields, which pydantic blames on no field."""
    return PydanticCustomError("invalid_value", "{message}", {"message": message, "param": param})


def renamed(error: RequestError, names: dict[str, str]) -> RequestError:
    """The same error in the words of another dialect: `names` from the fields it blames to those that were sent."""
    param = error.param or ""
    new = renamed_param(param, names)
    if new == param:
        return error
    message = error.message.replace(param, new)
    return RequestError(message, status=error.status, code=error.code, param=new, retry_after=error.retry_after)


def renamed_param(param: str, names: dict[str, str]) -> str:
    """The first of `names` that it is, or lies below, in its new form."""
    old = next((name for name in names if param == name or param.startswith((f"{name}.", f"{name}["))), None)
    return param if old is None else names[old] + param.removeprefix(old)


def _request_error(error: ErrorDetails, body: object) -> RequestError:
    missing = error["type"] == "missing"
    param = _param(error["loc"], body, missing=missing)
    if missing:
        return RequestError(f"{param} is missing.", code="missing_required_parameter", param=param or None)
    param = param or error.get("ctx", {}).get("param", "")
    message = error["msg"].removeprefix("Value error, ")
    code = "invalid_type" if error["type"].endswith("_type") else "invalid_value"
    return RequestError(f"{param}: {message}" if param else message, code=code, param=param or None)


def _param(loc: tuple[int | str, ...], body: Any, *, missing: bool) -> str:
    """The way to the field as the client sees it: pydantic also names the members of unions that it tried."""
    param = ""
    for i, part in enumerate(loc):
        if isinstance(part, int):
            param += f"[{part}]"
            body = body[part] if isinstance(body, list) and part < len(body) else None
        elif (isinstance(body, dict) and part in body) or (missing and i == len(loc) - 1):
            param += f".{part}" if param else part
            body = body.get(part) if isinstance(body, dict) else None
    return param
