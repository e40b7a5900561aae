"""What grammars cost in a step: masks filled and applied, and tokens followed, for a batch of outputs at random places.

    python -m bench.grammar_masks [--model .models/smollm2] [--batch 32] [--tokens 60]

Each output walks through its grammar by tokens drawn from its masks. CPU time of all threads, so that a busy machine
does not count; A step is
`bar_by_grammar` as the runner calls it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import statistics
import time

import torch

from forebay_runtime.execution.grammar_mask import bar_by_grammar
from forebay_runtime.grammar import Grammar
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import ScheduledSequence
from forebay_runtime.text.grammar import GrammarCompiler
from forebay_runtime.text.grammar_source import GrammarKind, GrammarSource, json_schema
from forebay_runtime.text.loading import load_tokenizer

RECORD = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 5},
        "mood": {"enum": ["calm", "glad", "sad"]},
    },
    "required": ["name", "age", "tags", "mood"],
    "additionalProperties": False,
}
SOURCES = {
    "a record": json_schema(RECORD),
    "any JSON object": json_schema({"type": "object"}),
    "a pattern": GrammarSource(GrammarKind.REGEX, r"[A-F]{3}-[0-9]{2}"),
}


def walk(grammar: Grammar, batch: int, tokens: int, vocab_size: int, eos: frozenset[int]) -> list[float]:
    """CPU seconds of each step. An output that has come to its end begins again."""
    choose = random.Random(0)

    def new() -> Sequence:
        return Sequence(Request("x", (1,), SamplingParams(), eos, grammar=grammar.start()), [1], 1)

    sequences = [new() for _ in range(batch)]
    seconds, logits = [], torch.ones((batch, vocab_size))
    for _ in range(tokens):
        logits.fill_(0.0)  # memory that has been written before, as a model's logits are
        scheduled = [ScheduledSequence(s, len(s.token_ids) - s.num_computed_tokens) for s in sequences]
        began = time.process_time()
        bar_by_grammar(logits, scheduled)
        seconds.append(time.process_time() - began)
        for i, row in enumerate(logits):
            token = choose.choice(torch.isfinite(row).nonzero().flatten().tolist())
            if token in eos:
                sequences[i] = new()
            else:
                sequences[i].token_ids.append(token)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=pathlib.Path(".models/smollm2"))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=60)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(args.model)
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size)
    for name, source in SOURCES.items():
        began = time.process_time()
        grammar = compiler.compile(source)
        compiled = time.process_time() - began
        seconds = walk(grammar, args.batch, args.tokens, tokenizer.vocab_size, tokenizer.eos_token_ids)
        told = {
            "grammar": name,
            "compile_ms": round(compiled * 1e3, 1),
            "step_ms_mean": round(statistics.mean(seconds) * 1e3, 2),
            "step_ms_median": round(statistics.median(seconds) * 1e3, 2),
            "first_step_ms": round(seconds[0] * 1e3, 2),
        }
        print(json.dumps(told))


if __name__ == "__main__":
    main()
