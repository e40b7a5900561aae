"""Wire models of loading and unloading adapters, as vLLM has them."""

from __future__ import annotations

from pydantic import Field

from forebay_runtime.server.wire import Wire

_LONGEST_NAME, _LONGEST_PATH = 256, 4096


class LoadAdapterRequest(Wire):
    """`load_inplace`: a name that is in use already is given to this one."""

    lora_name: str = Field(min_length=1, max_length=_LONGEST_NAME)
    lora_path: str = Field(min_length=1, max_length=_LONGEST_PATH)
    load_inplace: bool | None = None


class UnloadAdapterRequest(Wire):
    lora_name: str = Field(min_length=1, max_length=_LONGEST_NAME)
