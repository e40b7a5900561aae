"""hatch's hook: the native kernels are compiled into the package, where there is a C++ compiler."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from build_kernels import SOURCES, STAMP, build


class NativeKernels(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        libraries = build(SOURCES)
        if not libraries:
            self.app.display_warning("no C++ compiler: torch operations will serve in place of the native CPU kernels")
            return
        root = Path(self.root)
        build_data["artifacts"] += [str(path.relative_to(root)) for path in [*libraries, SOURCES / STAMP]]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform.system().lower()}_{platform.machine()}"
