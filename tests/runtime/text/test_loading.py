"""Where a model's tokenizer is found, and what is said when it can't be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Raw

from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.loading import load_tokenizer
from forebay_runtime.text.saving import save_tokenizer

PIECES = ["a", "b", "c", "ab", "abc", "Ġ", "Ġa", "1", "2", "12", "<|im_end|>", "<think>"]
MERGES = ["a b", "ab c", "Ġ a", "1 2"]
SPM = ["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab", "▁ab", "<0xC3>", "<0xA9>", "<turn>"]
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6


def write_directory(path: Path, **files: Any) -> Path:
    raw = Raw(models.BPE({piece: i for i, piece in enumerate(PIECES)}, [("a", "b")]))
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken("<|im_end|>", special=True, normalized=False)])
    raw.save(str(path / "tokenizer.json"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def write_gguf(path: Path, **changes: Any) -> Path:
    writer = gguf.GGUFWriter(path / "model.gguf", "llama")
    writer.add_tokenizer_model(changes.get("model", "gpt2"))
    writer.add_tokenizer_pre(changes.get("pre", "smollm"))
    writer.add_token_list(changes.get("tokens", PIECES))
    writer.add_token_types(changes.get("types", [NORMAL] * 10 + [CONTROL, USER]))
    if "scores" in changes:
        writer.add_token_scores(changes["scores"])
    else:
        writer.add_token_merges(MERGES)
    writer.add_eos_token_id(changes.get("eos", 0))
    writer.add_bos_token_id(1)
    writer.add_unk_token_id(0)
    for key, value in changes.get("flags", {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_bool)(f"tokenizer.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_every_end_that_the_files_name_ends(tmp_path: Path) -> None:
    write_directory(
        tmp_path,
        config={"eos_token_id": 1},
        generation_config={"eos_token_id": [2, 3]},
        tokenizer_config={"eos_token": {"content": "<|im_end|>"}},
    )
    assert load_tokenizer(tmp_path).eos_token_ids == {1, 2, 3, PIECES.index("<|im_end|>")}


@pytest.mark.parametrize(
    ("value", "want"), [("{{ x }}", "{{ x }}"), ([{"name": "default", "template": "d"}], "d"), (None, None)]
)
def test_the_chat_template_of_the_tokenizer_s_config(tmp_path: Path, value: Any, want: str | None) -> None:
    assert load_tokenizer(write_directory(tmp_path, tokenizer_config={"chat_template": value})).chat_template == want


def test_a_chat_template_of_its_own_file_goes_first(tmp_path: Path) -> None:
    write_directory(tmp_path, tokenizer_config={"chat_template": "old"})
    (tmp_path / "chat_template.jinja").write_text("new")
    assert load_tokenizer(tmp_path).chat_template == "new"


def test_a_gguf_tokenizer_splits_digits_and_knows_its_control_tokens(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_gguf(tmp_path, flags={"chat_template": "{{ t }}"}))
    ids = tokenizer.encode("abc 12<|im_end|><think>")
    assert [tokenizer.token_bytes(i) for i in ids] == [b"abc", b" ", b"1", b"2", b"<|im_end|>", b"<think>"]
    assert tokenizer.special_ids == {PIECES.index("<|im_end|>")}
    assert tokenizer.eos_token_ids == {0, PIECES.index("<|im_end|>")}
    assert tokenizer.chat_template == "{{ t }}"


@pytest.mark.parametrize("pre", ["qwen2", "llama-bpe"])
def test_a_gguf_tokenizer_splits_as_its_family_does(tmp_path: Path, pre: str) -> None:
    """Qwen takes digits one by one, Llama 3 up to three together."""
    tokenizer = load_tokenizer(write_gguf(tmp_path, pre=pre))
    digits = [b"1", b"2"] if pre == "qwen2" else [b"12"]
    assert [tokenizer.token_bytes(i) for i in tokenizer.encode("12 ab")] == [*digits, b" ", b"ab"]


def sentence_piece_gguf(tmp_path: Path, **flags: bool) -> Path:
    scores = [0.0, 0.0, 0.0, -9.0, -9.0, -9.0, -1.0, -2.0, -3.0, 0.0, 0.0, -99.0]
    types = [UNKNOWN, CONTROL, CONTROL, *[NORMAL] * 6, BYTE, BYTE, CONTROL]
    return write_gguf(tmp_path, model="llama", tokens=SPM, types=types, scores=scores, eos=2, flags=flags)


def test_a_sentence_piece_tokenizer_merges_by_score(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(sentence_piece_gguf(tmp_path, **{"ggml.add_space_prefix": False}))
    ids = tokenizer.encode("ab ab<turn>é", add_special_tokens=False)
    assert [tokenizer.token_bytes(i) for i in ids] == [b"ab", b" ab", b"<turn>", b"\xc3", b"\xa9"]
    assert tokenizer.decode(ids) == "ab ab<turn>é"


def test_the_first_token_is_put_in_front_only_of_texts_that_want_it(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(sentence_piece_gguf(tmp_path, **{"ggml.add_bos_token": True}))
    plain = tokenizer.encode("ab", add_special_tokens=False)
    assert tokenizer.encode("ab") == [SPM.index("<s>"), *plain]
    assert tokenizer.decode(plain) == " ab"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "bert"}, "model 'bert'; gpt2 and llama are supported"),
        ({"pre": "glm4"}, "splits text by 'glm4'"),
        ({"types": [1]}, "token_type for each of its 12 tokens"),
    ],
)
def test_an_unsupported_gguf_tokenizer_is_refused_by_name(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(write_gguf(tmp_path, **changes))


def test_a_directory_without_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"neither a tokenizer\.json nor a GGUF file"):
        load_tokenizer(tmp_path)
    with pytest.raises(TokenizerError, match="does not exist"):
        load_tokenizer(tmp_path / "none")


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json can't be read"):
        load_tokenizer(tmp_path)
    write_directory(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json holds no JSON object"):
        load_tokenizer(tmp_path)


def test_a_cut_off_gguf_file_is_named(tmp_path: Path) -> None:
    file = write_gguf(tmp_path) / "model.gguf"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(TokenizerError, match=r"model\.gguf is cut off"):
        load_tokenizer(tmp_path)


SPM_CHANGES: dict[str, Any] = {
    "model": "llama",
    "tokens": SPM,
    "types": [UNKNOWN, CONTROL, CONTROL, *[NORMAL] * 6, BYTE, BYTE, CONTROL],
    "scores": [0.0, 0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0, -1.5, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("changes", [{}, {"pre": "llama-bpe"}, SPM_CHANGES], ids=["smollm", "llama3", "sentencepiece"])
def test_a_gguf_tokenizer_that_was_saved_is_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    flags = {"chat_template": "{{ t }}", "ggml.add_bos_token": True}
    given = load_tokenizer(write_gguf(tmp_path, **changes, flags=flags))
    (tmp_path / "saved").mkdir()
    save_tokenizer(tmp_path, tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    text = "abc 12é<|im_end|><think> a<turn>ab"
    assert again.encode(text) == given.encode(text)
    assert again.chat_template == given.chat_template == "{{ t }}"
    for what in ("vocab_size", "eos_token_ids", "special_ids", "bos_token", "eos_token"):
        assert getattr(again, what) == getattr(given, what)


def test_a_directory_s_files_are_copied_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    write_directory(tmp_path, config={"eos_token_id": 1}, tokenizer_config={"chat_template": "{{ x }}"})
    (tmp_path / "chat_template.jinja").write_text("new")
    save_tokenizer(tmp_path, tmp_path / "saved")
    for name in ("tokenizer.json", "config.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / "saved" / name).read_bytes() == (tmp_path / name).read_bytes()
