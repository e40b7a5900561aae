"""What is measured of which model and which contenders, unless the command names others: what tells something new for
the minutes that it takes. Three rounds of all of it take about an hour on two idle cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench import contenders

_QUANTIZED = ("forebay-int8", "forebay-int4", "llama-q8_0", "llama-q4_0")
_STEPS = dict.fromkeys(("prefill-512", "decode-1", "decode-32"), _QUANTIZED)
_QUALITY = {"perplexity": ("forebay-bf16", *_QUANTIZED)}

PROGRAMME: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "smollm2": {
        **_STEPS,
        **dict.fromkeys(("decode-8", "decode-1@1024", "decode-8@1024", "decode-32@1024"), _QUANTIZED),
        "served": (*_QUANTIZED, *contenders.WHERE_INSTALLED),
        "one-by-one": ("newcomer",),
        **_QUALITY,
    },
    "gemma3": {**_STEPS, **_QUALITY},
    "llama-1b2": _STEPS,  # its weights mean nothing, so they have no perplexity worth telling
}


def plan(model: str, cases: Sequence[str] | None, chosen: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Contenders by case. A case that the model's programme lacks is for all that take part in its other ones."""
    usual = PROGRAMME[model]
    return {case: tuple(chosen or usual.get(case, _QUANTIZED)) for case in cases or usual}
