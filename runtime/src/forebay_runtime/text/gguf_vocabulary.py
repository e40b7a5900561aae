"""The tokenizer inside a GGUF file. Names and rules are those of llama.cpp's src/llama-vocab.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from forebay_runtime.gguf_file import GgufFile
from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.token_bytes import SPACE_MARK
from forebay_runtime.text.tokenizer import TokenizerFiles

_CONTROL, _USER_DEFINED = 3, 4
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
}
# Texts that end a turn where they are control tokens, whatever eos_token_id says.
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>")


def read_gguf_tokenizer(gguf: GgufFile) -> TokenizerFiles:
    """TokenizerError names the file and what it holds that is not supported."""
    metadata = gguf.metadata
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise TokenizerError(f"{gguf.path} holds no tokenizer")
    match metadata.get("tokenizer.ggml.model"):
        case "gpt2":
            tokenizer = _byte_level(gguf, tokens)
        case "llama":
            tokenizer = _sentence_piece(gguf, tokens)
        case other:
            raise TokenizerError(f"{gguf.path} has a tokenizer of model {other!r}; gpt2 and llama are supported")
    types = _numbers(gguf, "tokenizer.ggml.token_type", len(tokens))
    tokenizer.add_special_tokens([_added(t, True) for t, kind in zip(tokens, types, strict=True) if kind == _CONTROL])
    tokenizer.add_tokens([_added(t, False) for t, kind in zip(tokens, types, strict=True) if kind == _USER_DEFINED])
    bos, eos = _token(metadata, tokens, "bos"), _token(metadata, tokens, "eos")
    tokenizer.post_processor = _template(tokenizer, metadata, bos, eos)
    ends = {eos, _token(metadata, tokens, "eot"), *(t for t in _ENDS if tokenizer.token_to_id(t) is not None)}
    eos_ids = frozenset(tokenizer.token_to_id(t) for t in ends if t is not None)
    template = metadata.get("tokenizer.chat_template")
    return TokenizerFiles(tokenizer, eos_ids, bos, eos, template if isinstance(template, str) else None)


def _byte_level(gguf: GgufFile, tokens: list[str]) -> Any:
    merges = gguf.metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise TokenizerError(f"{gguf.path} has a gpt2 tokenizer without merges")
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    pre = str(gguf.metadata.get("tokenizer.ggml.pre", "default"))
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=_SPLITS.get(pre) == _LLAMA3))
    tokenizer.pre_tokenizer = _pre_tokenizer(gguf, pre)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pre_tokenizer(gguf: GgufFile, pre: str) -> Any:
    match pre:
        case "default" | "gpt-2":
            return pre_tokenizers.ByteLevel(add_prefix_space=False)
        case "smollm" | "starcoder" | "refact" | "codeshell" | "command-r":
            digits = pre_tokenizers.Digits(individual_digits=True)
            return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        case _ if pre in _SPLITS:
            split = pre_tokenizers.Split(Regex(_SPLITS[pre]), "isolated")
            plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            return pre_tokenizers.Sequence([split, plain])
    known = ", ".join(sorted({"default", "gpt-2", "smollm", "starcoder", *_SPLITS}))
    raise TokenizerError(f"{gguf.path} splits text by {pre!r}; supported are {known}")


def _sentence_piece(gguf: GgufFile, tokens: list[str]) -> Any:
    scores = _numbers(gguf, "tokenizer.ggml.scores", len(tokens))
    types = _numbers(gguf, "tokenizer.ggml.token_type", len(tokens))
    merges = _merges_by_score(tokens, scores, types)
    unknown = _token(gguf.metadata, tokens, "unknown")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = bool(gguf.metadata.get("tokenizer.ggml.add_space_prefix", True))
    replace = normalizers.Replace(" ", SPACE_MARK)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE_MARK), replace]) if prefix else replace
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _merges_by_score(tokens: list[str], scores: Sequence[float], types: Sequence[float]) -> list[tuple[str, str]]:
    """SentencePiece joins the neighbours whose union scores best: as merges, every split of every piece, best first."""
    ordinary = {t: i for i, (t, kind) in enumerate(zip(tokens, types, strict=True)) if kind not in (3, 4, 6)}
    merges = []
    for token, i in ordinary.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ordinary and right in ordinary:
                merges.append((-scores[i], i, ordinary[left], left, right))
    merges.sort()
    return [(left, right) for _, _, _, left, right in merges]


def _template(tokenizer: Any, metadata: dict[str, object], bos: str | None, eos: str | None) -> Any:
    """Puts bos in front and eos behind where the file asks for it, when special tokens are wanted."""
    default_bos = metadata.get("tokenizer.ggml.model") == "llama"
    first = bos if metadata.get("tokenizer.ggml.add_bos_token", default_bos) else None
    last = eos if metadata.get("tokenizer.ggml.add_eos_token", False) else None
    template = [t for t in (first, "$A", last) if t is not None]
    special = [(t, tokenizer.token_to_id(t)) for t in {first, last} if t is not None]
    return processors.TemplateProcessing(single=template, special_tokens=special) if special else None


def _added(text: str, special: bool) -> Any:
    return AddedToken(text, special=special, normalized=False)


def _token(metadata: dict[str, object], tokens: list[str], name: str) -> str | None:
    index = metadata.get(f"tokenizer.ggml.{name}_token_id")
    return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else None


def _numbers(gguf: GgufFile, key: str, length: int) -> list[float]:
    values = gguf.metadata.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise TokenizerError(f"{gguf.path} has no {key} for each of its {length} tokens")
    return values
