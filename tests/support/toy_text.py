"""A small tokenizer and chat template, for tests that need text but no model."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from forebay_runtime.text.chat import ChatTemplate
from forebay_runtime.text.token_bytes import byte_level_alphabet
from forebay_runtime.text.tokenizer import Tokenizer as TextTokenizer
from forebay_runtime.text.tokenizer import TokenizerFiles

END, START = "<|end|>", "<|start|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|start|>' + message['role'] + '\\n' + message['content'] + '<|end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"
)
WORDS = ("the", "river", "mill", "water", "stop", "and", "ran", "past")


def toy_tokenizer(normalizer: Any = None) -> TextTokenizer:
    """Byte level: a token for each byte, for each word and its beginnings, and two control tokens.

    With a normalizer these are looked for in normalized text.
    """
    pieces = sorted(byte_level_alphabet())
    merges = []
    for word in (*WORDS, *("Ġ" + word for word in WORDS)):
        for cut in range(1, len(word)):
            left, right = word[:cut], word[cut]
            if left + right not in pieces:
                pieces.append(left + right)
                merges.append((left, right))
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=normalizer is not None) for t in (END, START)])
    ends = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.content == END]
    return TextTokenizer(TokenizerFiles(tokenizer, frozenset(ends), None, END, TEMPLATE))


def toy_template(tokenizer: TextTokenizer) -> ChatTemplate:
    return ChatTemplate(TEMPLATE, tokenizer)
