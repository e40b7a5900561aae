"""By what a gateway finds again the process that keeps a response: its mark for it goes into the response's id."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import Scope

from forebay_runtime.request import RequestError

HEADER = "X-Forebay-Keeper"
_MARK = re.compile("[0-9a-f]{16}")


def keeper(scope: Scope) -> str:
    """The mark; empty without a gateway. RequestError 400 for a wrong header."""
    mark = Headers(scope=scope).get(HEADER, "")
    if mark and not _MARK.fullmatch(mark):
        message = f"{HEADER}: is 16 hexadecimal digits, set by a gateway."
        raise RequestError(message, code="invalid_value", param=HEADER)
    return mark
