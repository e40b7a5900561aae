"""Forebay beside its peers on one machine, the same weights and as many threads, all in one run.

    python -m bench                                        everything, and bench/results/cpu.json with a plot
    python -m bench --models smollm2 --cases decode-1,prefill-512 --contenders forebay-int8,llama-q8_0

Rounds interleave the contenders, so that a noisy machine hurts them alike; figures are medians over the rounds.
The engine's own cost and the gateway's are measured by bench.step_overhead and bench.gateway.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from bench import contenders as field
from bench import models, report, text
from bench.cases import Case, Contender, NotOffered, cases
from bench.machine import machine, versions
from forebay_runtime import machine as own

RESULTS = Path(__file__).parent / "results" / "cpu.json"
CASES = (
    *("prefill-512", "decode-1", "decode-8", "decode-32", "decode-1@1024", "decode-8@1024", "decode-32@1024"),
    *("mixed", "http", "perplexity"),
)
# Weights of no meaning have no perplexity worth telling, and at 1.2 billion the longer cases take hours.
SPARED = {"llama-1b2": ("decode-1@1024", "decode-8@1024", "decode-32@1024", "mixed", "http", "perplexity")}


def words(value: str) -> list[str]:
    return value.split(",")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=words, default=list(models.NAMES), help=",".join(models.NAMES))
    parser.add_argument("--cases", type=words, default=list(CASES), help=",".join(CASES))
    parser.add_argument(
        "--contenders", type=words, default=[*field.NAMES, *field.WHERE_INSTALLED], help=",".join(field.NAMES)
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=max(1, int(own.cpus())))
    parser.add_argument("--output", type=Path, help=f"a JSON file, with a plot beside it, such as {RESULTS.name}")
    options = parser.parse_args()
    figures, about = report.Figures(), {"machine": machine(options.threads), "versions": versions()}
    print(about, flush=True)
    for name in options.models:
        model = models.Model(name)
        with contextlib.ExitStack() as stack:
            made = [field.contender(c, model, options.threads) for c in options.contenders]
            for contender in made:
                stack.callback(contender.close)
            chosen = [c for c in cases(options.cases) if c.name not in SPARED.get(name, ())]
            run(made, chosen, model, options.rounds, figures)
        print(report.table({k: v for k, v in figures.medians().items() if k.startswith(name)}, made), flush=True)
    if options.output:
        report.write(options.output, figures.medians(), made, about)
    return 0


def run(made: list[Contender], chosen: list[Case], model: models.Model, rounds: int, figures: report.Figures) -> None:
    ids = text.token_ids(model.bf16)
    for number in range(rounds):
        for case in chosen:
            if number and case.once:
                continue
            for contender in made:
                with contextlib.suppress(NotOffered):
                    for figure, value in case.measure(contender, ids).items():
                        figures.note(f"{model.name}/{figure}", contender.name, value)
                        print(f"  {model.name} {number} {contender.name:14} {figure}: {value:.2f}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
