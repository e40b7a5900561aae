"""Which bytes each token stands for. Text is these bytes, joined and decoded: exact also where a token is half a
character."""

from __future__ import annotations

import json
from collections.abc import Callable

from forebay_runtime.text.errors import TokenizerError

SPACE_MARK = "\u2581"  # what SentencePiece writes for a space


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes, backwards."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    alphabet = {chr(b): b for b in plain}
    others = [b for b in range(256) if b not in set(plain)]
    return alphabet | {chr(256 + i): b for i, b in enumerate(others)}


_ALPHABET = byte_level_alphabet()


def byte_level(piece: str) -> bytes:
    try:
        return bytes(_ALPHABET[c] for c in piece)
    except KeyError:
        return piece.encode()


def sentence_piece(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes.fromhex(piece[3:5])
    return piece.replace(SPACE_MARK, " ").encode()


def bytes_of_piece(decoder: str) -> Callable[[str], bytes]:
    """The rule of a tokenizers decoder, given as its JSON. TokenizerError for one that this module doesn't know."""
    spec = json.loads(decoder)
    kinds = [d["type"] for d in spec.get("decoders", [])] if spec["type"] == "Sequence" else [spec["type"]]
    if "ByteLevel" in kinds:
        return byte_level
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        return sentence_piece
    raise TokenizerError(f"the tokenizer's decoder is {' + '.join(kinds)}; ByteLevel and SentencePiece's are supported")
