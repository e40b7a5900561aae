"""Forebay beside its peers on one machine, the same weights and as many threads, all in one run.

    python -m bench                                        all of bench.programme
    python -m bench --models smollm2 --cases decode-1,prefill-512 --contenders forebay-int8,llama-q8_0

In a round the contenders take turns at each case, so that a noisy machine hurts them alike; figures are medians over
the rounds. The file of results is written after each model. The engine's own cost and the gateway's are measured by
bench.step_overhead and bench.gateway.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import contenders as field
from bench import models, report, text
from bench.cases import Case, Contender, NotOffered
from bench.machine import machine, versions
from bench.programme import PROGRAMME, plan
from forebay_runtime import machine as own

RESULTS = Path(__file__).parent / "results" / "cpu.json"


def words(value: str) -> list[str]:
    return value.split(",")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=words, default=list(PROGRAMME), help=",".join(PROGRAMME))
    parser.add_argument(
        "--cases", type=words, help=",".join({case: 0 for cases in PROGRAMME.values() for case in cases})
    )
    parser.add_argument("--contenders", type=words, help=",".join((*field.NAMES, *field.WHERE_INSTALLED)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=max(1, int(own.cpus())))
    parser.add_argument("--output", type=Path, help=f"a JSON file, with a plot beside it, such as {RESULTS.name}")
    options = parser.parse_args()
    figures, met = report.Figures(), dict[str, Contender]()
    about = {"machine": machine(options.threads), "versions": versions(), "rounds": options.rounds}
    print(about, flush=True)
    for name in options.models:
        model, cases, began = models.Model(name), plan(name, options.cases, options.contenders), time.monotonic()
        with contextlib.ExitStack() as stack:
            made = {}
            for who in dict.fromkeys(who for taking_part in cases.values() for who in taking_part):
                made[who] = field.contender(who, model, options.threads)
                stack.callback(made[who].close)
            met |= made
            for number in range(options.rounds):
                a_round(number, model, cases, made, figures)
        print(report.table(figures.medians(f"{name}/"), met.values()), flush=True)
        print(f"{name}: {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
        if options.output:
            report.write(options.output, figures.medians(), met.values(), about)
    return 0


def a_round(
    number: int,
    model: models.Model,
    cases: Mapping[str, Sequence[str]],
    made: Mapping[str, Contender],
    figures: report.Figures,
) -> None:
    ids = text.token_ids(model.bf16)
    for case, taking_part in ((Case(name), who) for name, who in cases.items()):
        for who in taking_part if number == 0 or not case.once else ():
            began, measured = time.monotonic(), dict[str, float]()
            with contextlib.suppress(NotOffered):
                measured = case.measure(made[who], ids)
            seconds = time.monotonic() - began
            for figure, value in measured.items():
                figures.note(f"{model.name}/{figure}", who, value)
            told = ", ".join(f"{figure} {value:.4g}" for figure, value in measured.items())
            print(f"  {model.name} {number} {case.name} {who}, {seconds:.0f} s: {told}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
