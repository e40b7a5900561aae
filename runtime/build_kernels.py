"""Compiles the native CPU kernels, one library per instruction set: `python3 build_kernels.py DIRECTORY [FLAG ...]`.

Standard library only: the image's build stage runs it by itself, the package's build backend calls it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))
from forebay_runtime.kernels.sources import SOURCES, STAMP, digest, is_current

FLAGS = [
    *(
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-pthread",
        "-fvisibility=hidden",
        "-static-libstdc++",
        "-static-libgcc",
    ),
    *("-ffp-contract=off", "-fno-math-errno"),  # a product and a sum are one operation only where the code says so
    # a compiler's own AVX-512 header is what it warns of
    *("-Wall", "-Wextra", "-Wno-psabi", "-Wno-uninitialized", "-Wno-maybe-uninitialized"),
]
_X86 = {
    "portable": [],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
    "avx512_vnni": ["-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512"],
}


def instruction_sets() -> dict[str, list[str]]:
    """The compiler's flags for each set of this kind of machine, whether or not this one has it."""
    return _X86 if platform.machine() == "x86_64" else {"portable": []}


def library(directory: Path, name: str) -> Path:
    return directory / f"libforebay_cpu_{name}.so"


def build(directory: Path, extra: tuple[str, ...] = ()) -> list[Path]:
    """The libraries; those made of the same sources are left alone. [] where there is no C++ compiler."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if compiler is None:
        return []
    directory.mkdir(parents=True, exist_ok=True)
    units = [str(path) for path in sorted(SOURCES.glob("*.cpp"))]
    current = is_current(directory)

    def compile_one(name: str, flags: list[str]) -> Path:
        target = library(directory, name)
        if not current or not target.is_file():
            part = target.with_suffix(f".{os.getpid()}.part")  # whoever loads the old one meanwhile keeps it
            subprocess.run([compiler, *FLAGS, *flags, *extra, *units, "-o", str(part)], check=True)
            part.replace(target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compile_one, *zip(*instruction_sets().items(), strict=True)))
    (directory / STAMP).write_text(digest())
    return made


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    made = build(Path(sys.argv[1]), tuple(sys.argv[2:]))
    if not made:
        sys.exit("no C++ compiler: set CXX or install g++")
    sys.stdout.writelines(f"{path}\n" for path in made)
