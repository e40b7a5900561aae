"""A model's tokenizer: text to token ids, and ids to the bytes they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.token_bytes import bytes_of_piece


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What the model's files say. `tokenizer` is a tokenizers.Tokenizer, which has no types of its own."""

    tokenizer: Any
    eos_token_ids: frozenset[int]
    bos_token: str | None = None
    eos_token: str | None = None
    chat_template: str | None = None


class Tokenizer:
    """Thread-safe: encoding changes nothing, and the table of bytes is filled with the same values by whoever comes."""

    def __init__(self, files: TokenizerFiles) -> None:
        self._tokenizer = files.tokenizer
        if self._tokenizer.decoder is None:
            raise TokenizerError("the tokenizer has no decoder")
        self._bytes_of_piece: Callable[[str], bytes] = bytes_of_piece(self._tokenizer.decoder.__getstate__().decode())
        added = self._tokenizer.get_added_tokens_decoder()
        self._added: dict[int, bytes] = {i: token.content.encode() for i, token in added.items()}
        self.special_ids = frozenset(i for i, token in added.items() if token.special)
        self.control_tokens = frozenset(token.content for token in added.values() if token.special)
        normalized = any(token.special and token.normalized for token in added.values())
        normalizer = self._tokenizer.normalizer
        # What texts become before control tokens are looked for in them; None where they stay as they are.
        self.normalize: Callable[[str], str] | None = normalizer.normalize_str if normalizer and normalized else None
        self.vocab_size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.longest_piece: int = max(map(len, self._tokenizer.get_vocab()), default=1)
        self.eos_token_ids = files.eos_token_ids
        self.bos_token, self.eos_token = files.bos_token, files.eos_token
        self.chat_template = files.chat_template
        self._bytes: list[bytes | None] = [None] * self.vocab_size

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Control tokens written out in `text` become their ids."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def encode_pieces(self, pieces: Iterable[str]) -> list[int]:
        """Pieces encoded one by one and joined, so that no token spans two of them. Adds no special tokens."""
        return [i for piece in pieces if piece for i in self.encode(piece, add_special_tokens=False)]

    def ids_of(self, texts: Iterable[str]) -> frozenset[int]:
        """The ids of those added tokens whose texts are among these."""
        wanted = {text.encode() for text in texts}
        return frozenset(i for i, data in self._added.items() if data in wanted) if wanted else frozenset()

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the ids, control tokens written out; U+FFFD for what is no UTF-8."""
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """What the token adds to the text; nothing for an id that the vocabulary doesn't name."""
        if token_id >= self.vocab_size:
            return b""
        data = self._bytes[token_id]
        if data is None:
            data = self._bytes[token_id] = self._make_bytes(token_id)
        return data

    def _make_bytes(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id]
        piece = self._tokenizer.id_to_token(token_id)
        return self._bytes_of_piece(piece) if piece is not None else b""
