"""The head of a GGUF file, against the gguf package's writer."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay_runtime.gguf_file import GgufError, find_gguf, read_gguf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_string("a.text", "naïve 日本")
    writer.add_uint32("a.count", 7)
    writer.add_float32("a.share", 0.5)
    writer.add_bool("a.flag", True)
    writer.add_array("a.words", ["x", "", "é"])
    writer.add_array("a.numbers", [1, -2, 3])
    writer.add_tensor("first", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("second", np.ones((5,), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "model.gguf"


def test_metadata_keep_their_types(file: Path) -> None:
    metadata = read_gguf(file).metadata
    assert metadata["general.architecture"] == "llama"
    assert (metadata["a.text"], metadata["a.count"], metadata["a.share"]) == ("naïve 日本", 7, 0.5)
    assert (metadata["a.flag"], metadata["a.words"], metadata["a.numbers"]) == (True, ["x", "", "é"], [1, -2, 3])


def test_tensors_lie_where_the_file_says(file: Path) -> None:
    first, second = read_gguf(file).tensors
    assert (first.name, first.shape, first.type) == ("first", (3, 2), gguf.GGMLQuantizationType.F32)
    assert (second.name, second.shape, second.type) == ("second", (5,), gguf.GGMLQuantizationType.F16)
    data = file.read_bytes()
    assert np.frombuffer(data, np.float32, 6, first.offset).tolist() == [0, 1, 2, 3, 4, 5]
    assert np.frombuffer(data, np.float16, 5, second.offset).tolist() == [1] * 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_no_broken_file_breaks_anything_else(file: Path, data: st.DataObject) -> None:
    whole = file.read_bytes()
    head = 500
    if data.draw(st.booleans()):
        broken = whole[: data.draw(st.integers(0, head))]
    else:
        at = data.draw(st.integers(0, head))
        broken = whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]
    path = file.with_name("broken.gguf")
    path.write_bytes(broken)
    with contextlib.suppress(GgufError):
        read_gguf(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"GGML", "no GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1), "cut off"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 9) + struct.pack("<IQ", 9, 1) * 2000, "broken"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "wrong.gguf"
    path.write_bytes(content)
    with pytest.raises(GgufError, match=message) as refused:
        read_gguf(path)
    assert "wrong.gguf" in str(refused.value)


def test_the_file_that_a_path_means(file: Path, tmp_path: Path) -> None:
    assert find_gguf(file) == find_gguf(tmp_path) == file
    assert find_gguf(tmp_path / "none") is None
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(GgufError, match=r"name one of them: model\.gguf, other\.gguf"):
        find_gguf(tmp_path)
