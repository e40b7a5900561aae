"""A model that was saved quantized serves as the one that is quantized on load, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from errno import EIO, ENOSPC, EROFS
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from forebay_runtime.build import quantize, what_failed
from forebay_runtime.config import ModelOptions
from forebay_runtime.failures import StartUpError
from forebay_runtime.models import ModelError, load
from forebay_runtime.models.errors import BrokenWeights, KernelsNotFound, UnsupportedModel
from forebay_runtime.progress import Progress
from tests.support.families import FAMILIES, random_model
from tests.support.forward import logits_of
from tests.support.tiny_checkpoint import write_checkpoint

PROMPT = [(7 * i + i * i) % 32 for i in range(40)]


def options(path: Path, quantization: Literal["auto", "int8", "int4"] = "int4", **changes: Any) -> ModelOptions:
    return replace(ModelOptions(str(path), device="cpu", quantization=quantization, threads=1), **changes)


def saved(path: Path, directory: Path, quantization: Literal["int8", "int4"] = "int4") -> Path:
    directory.mkdir()
    load(options(path, quantization), save_to=directory)
    return directory


@pytest.mark.parametrize("quantization", ["int8", "int4"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_quantizing_on_load(
    family: str, quantization: Literal["int8", "int4"], tmp_path: Path
) -> None:
    random_model(family).save_pretrained(tmp_path / "given")
    on_load = load(options(tmp_path / "given", quantization))
    again = load(options(saved(tmp_path / "given", tmp_path / "saved", quantization), "auto"))
    assert again.quantization == quantization
    assert torch.equal(logits_of(again, PROMPT), logits_of(on_load, PROMPT))
    assert (again.config.layers, again.eos_token_ids) == (on_load.config.layers, on_load.eos_token_ids)
    assert (again.num_parameters, again.weight_bytes) == (on_load.num_parameters, on_load.weight_bytes)


def of_another_layout(path: Path) -> None:
    change_index(path, layout=2)


def without_numbers(path: Path) -> None:
    (path / "packed.bin").unlink()


def cut_off(path: Path) -> None:
    file = path / "packed.bin"
    file.write_bytes(file.read_bytes()[:-64])


def index_that_is_no_json(path: Path) -> None:
    (path / "packed.json").write_text("{")


def index_of_nothing(path: Path) -> None:
    (path / "packed.json").write_text("[]")


def without_a_norm(path: Path) -> None:
    model = json.loads((path / "packed.json").read_text())["model"]
    del model["norms"]["model.norm"]
    change_index(path, model=model)


def with_a_smaller_head(path: Path) -> None:
    model = json.loads((path / "packed.json").read_text())["model"]
    model["linears"]["lm_head"]["data"]["length"] -= 64
    change_index(path, model=model)


def with_a_norm_before_the_file(path: Path) -> None:
    change_place(path, offset=-64)


def with_a_norm_of_half_a_number(path: Path) -> None:
    change_place(path, length=2)


def with_a_norm_of_less_than_nothing(path: Path) -> None:
    change_place(path, length=-4)


def change_place(path: Path, **changes: int) -> None:
    model = json.loads((path / "packed.json").read_text())["model"]
    model["norms"]["model.norm"] |= changes
    change_index(path, model=model)


def change_index(path: Path, **changes: Any) -> None:
    index = json.loads((path / "packed.json").read_text())
    (path / "packed.json").write_text(json.dumps(index | changes))


CASES: dict[str, tuple[Callable[[Path], None], type[ModelError], str]] = {
    "another layout": (of_another_layout, UnsupportedModel, "layout 2, but layout 1 is what this runtime reads"),
    "no numbers": (without_numbers, BrokenWeights, "packed.bin is missing"),
    "cut off": (cut_off, BrokenWeights, "packed.bin is cut off or broken"),
    "no JSON": (index_that_is_no_json, BrokenWeights, "packed.json is no index of packed weights"),
    "no object": (index_of_nothing, BrokenWeights, "packed.json is no index of packed weights"),
    "a norm missing": (without_a_norm, BrokenWeights, "does not hold model.norm as its own config makes it"),
    "before the file": (with_a_norm_before_the_file, BrokenWeights, "packed.bin is cut off or broken"),
    "half a number": (with_a_norm_of_half_a_number, BrokenWeights, "packed.bin is cut off or broken"),
    "less than nothing": (with_a_norm_of_less_than_nothing, BrokenWeights, "packed.bin is cut off or broken"),
    "a part too small": (with_a_smaller_head, BrokenWeights, "does not hold lm_head as its own config makes it"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_whole_or_of_another_layout_is_refused_by_name(case: str, tmp_path: Path) -> None:
    spoil, error, message = CASES[case]
    directory = saved(write_checkpoint(tmp_path / "given", "llama"), tmp_path / "saved")
    spoil(directory)
    with pytest.raises(error, match=message):
        load(options(directory))


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"quantization": "int8"}, UnsupportedModel, "--quantization int8: .* was quantized to int4"),
        ({"quantization": "none"}, UnsupportedModel, "--quantization none: .* was quantized to int4"),
        ({"dtype": "float32"}, UnsupportedModel, "--dtype float32: .* was packed as bfloat16"),
        ({"kernels": "torch"}, KernelsNotFound, "packed for the native CPU kernels, which are not in use"),
    ],
)
def test_what_it_was_not_packed_for_is_refused_by_name(
    asked: dict[str, Any], error: type[ModelError], message: str, tmp_path: Path
) -> None:
    directory = saved(write_checkpoint(tmp_path / "given", "llama"), tmp_path / "saved")
    with pytest.raises(error, match=message):
        load(options(directory, **asked))


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(StartUpError, match="is not empty"):
        quantize(options(tmp_path), tmp_path, Progress())


def resident(path: Path) -> int:
    """Bytes of the file that this process has in its memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    mapped = [next(line for line in lines if line.startswith("Rss:")) for line in lines if line.endswith(str(path))]
    return sum(int(line.split()[1]) << 10 for line in mapped)


def test_what_counts_as_read_has_come_from_the_file(tmp_path: Path) -> None:
    """A map is no read: where storage is slow its pages come later, and loading would seem to have ended, and stall."""
    directory, progress = saved(write_checkpoint(tmp_path / "given", "llama"), tmp_path / "saved"), Progress()
    loaded = load(options(directory, "auto"), progress)
    assert loaded.weight_bytes <= progress.done <= progress.total
    assert resident(directory / "packed.bin") >= progress.done


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    source, directory = write_checkpoint(tmp_path / "given", "llama"), tmp_path / "saved"
    (source / "tokenizer.json").write_text("{}")
    weights = source / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-64])
    with pytest.raises(StartUpError):
        quantize(options(source), directory, Progress())
    assert not list(directory.iterdir())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(EIO, "I/O error", "/given/config.json"), "/given/config.json can't be read: I/O error"),
        (OSError(EROFS, "Read-only", "/saved/config.json"), "/saved can't be written: Read-only"),
        (OSError(ENOSPC, "Full", "/given/a.json", None, "/saved/a.json"), "/saved can't be written: Full"),
        (OSError(ENOSPC, "Full"), "/given can't be saved in /saved: Full"),
    ],
)
def test_which_side_failed_is_told(error: OSError, message: str) -> None:
    assert what_failed(error, Path("/given"), Path("/saved")) == message
