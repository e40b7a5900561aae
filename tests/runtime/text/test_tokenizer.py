"""Tokens stand for bytes, and the bytes join to the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Raw
from tokenizers import decoders, models

from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.token_bytes import sentence_piece
from forebay_runtime.text.tokenizer import Tokenizer, TokenizerFiles
from tests.support.toy_text import END, START, toy_tokenizer

TOY = toy_tokenizer()


@given(st.text(max_size=40))
def test_any_text_comes_back(text: str) -> None:
    assert TOY.decode(TOY.encode(text)) == text


def test_control_tokens_written_out_become_their_ids() -> None:
    ids = TOY.encode(f"{START}the river{END}")
    assert {ids[0], ids[-1]} == TOY.special_ids
    assert TOY.token_bytes(ids[0]) == START.encode()


def test_no_token_spans_two_pieces() -> None:
    assert len(TOY.encode("<|end|>")) == 1
    pieces = TOY.encode_pieces(["<", "|end|>"])
    assert not set(pieces) & TOY.special_ids
    assert TOY.decode(pieces) == "<|end|>"


def test_an_id_that_only_the_embedding_has_stands_for_nothing() -> None:
    assert TOY.token_bytes(TOY.vocab_size + 5) == b""


def test_sentence_piece_marks_spaces_and_spells_bytes() -> None:
    assert [sentence_piece(p) for p in ("▁the", "<0xF0>", "<0x>")] == [b" the", b"\xf0", b"<0x>"]


def test_an_unknown_decoder_is_refused_by_name() -> None:
    raw = Raw(models.WordPiece({"a": 0}, unk_token="a"))
    raw.decoder = decoders.WordPiece()
    with pytest.raises(TokenizerError, match="WordPiece"):
        Tokenizer(TokenizerFiles(raw, frozenset()))
