"""transformers' sandbox for chat templates, without the rest of transformers.

What its package gathers on import takes a second; the module that renders templates needs two of its neighbours. So
the package is a bare one while that module is imported, and gone after: who imports transformers later gets all of it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGE = "transformers"
_MODULE = "transformers.utils.chat_template_utils"


def import_renderer() -> Callable[..., Any]:
    """transformers' render_jinja_template. ImportError if transformers isn't installed."""
    if _PACKAGE in sys.modules:
        return _renderer()
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("transformers is not installed")
    root = spec.submodule_search_locations[0]
    sys.modules[_PACKAGE] = _bare(_PACKAGE, root)
    sys.modules[f"{_PACKAGE}.utils"] = _bare(f"{_PACKAGE}.utils", f"{root}/utils")
    try:
        return _renderer()
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]


def _renderer() -> Callable[..., Any]:
    renderer: Callable[..., Any] = importlib.import_module(_MODULE).render_jinja_template
    return renderer


def _bare(name: str, path: str) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [path]
    return package
