"""`make up`: a Kubernetes on this machine, the images, the chart, a served model and one answer from it.

Can be run again at any point: each phase looks at what is there and does the rest.
With KUBECONFIG and REGISTRY set it installs on that cluster instead, and makes none.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from e2e.cluster import binaries, cluster, content, images, leftovers, lock, registry, tools
from e2e.cluster.phases import Phase, PhaseError, Report, run, side_by_side
from e2e.cluster.release import Installer, how_to_go_on
from e2e.cluster.shell import CommandError, Shell
from e2e.cluster.state import CHECKOUT, SetupError, State, Target, state_of, target_of

GOALS = ("cluster", "images", "chart", "example")


def bring_up(report: Report, state: State, target: Target, goal: str) -> None:
    """Phases up to the goal; what does not depend on each other runs side by side."""
    step = partial(run, report, state)
    step(Phase("tools", lambda shell, say: tools.install(shell, state, say)))
    own = (
        Phase("binaries", lambda shell, say: binaries.build(shell, state, say)),
        Phase("cluster", lambda shell, say: cluster.up(shell, state, recipe(), say)),
    )
    if goal == "cluster":
        step(*own)
        return
    need = images.wanted(content.snapshot(CHECKOUT, state.scratch / "source"))
    built = Phase("images", lambda shell, say: images.build(shell, state, need, say))
    side_by_side(lambda: step(*own if target.own else ()), lambda: step(built))
    for phase in installation(state, target, need, goal):
        step(phase)


def installation(state: State, target: Target, need: images.Wanted, goal: str) -> Iterator[Phase]:
    """What is done on a cluster that runs, with images that are built."""
    yield Phase("push", lambda shell, say: registry.push(shell, state, target, need, say))
    if target.own:
        yield Phase("pull", lambda shell, say: registry.pull(shell, state, target, need, say))
    if goal == "images":
        return
    yield Phase("chart", lambda shell, say: Installer(shell, state, target).chart(need, say))
    if goal == "example":
        yield Phase("example", lambda shell, say: Installer(shell, state, target).example(say))
        yield Phase("answer", lambda shell, say: Installer(shell, state, target).answer(say))
    if target.own:
        yield Phase("prune", lambda shell, say: registry.prune(shell, state, target, need, say))


def recipe() -> str:
    return binaries.key_of_all(binaries.read_source())


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="up.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=GOALS, help="stop after this and what it needs (default: go all the way)")
    parser.add_argument("--print-kubeconfig", action="store_true", help="print the path of the kubeconfig, do nothing")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    arguments = parse(words)
    state = state_of(os.environ)
    report, began = Report(), time.monotonic()
    try:
        target = target_of(os.environ, state)
        if arguments.print_kubeconfig:
            print(target.kubeconfig)
            return 0
        tools.require_root()
        signal.signal(signal.SIGTERM, interrupted)
        with lock.held(f"make up in {CHECKOUT}", partial(report.line, "lock")):
            leftovers.sweep(state)
            try:
                bring_up(report, state, target, arguments.only or "example")
            except KeyboardInterrupt:
                leftovers.sweep(state)
                raise
        report.line("up", f"done in {time.monotonic() - began:.1f} s")
        if arguments.only in (None, "example"):
            shell = Shell(state.log / "answer.log", state.root, str(state.bin))
            print(how_to_go_on(state, target, Installer(shell, state, target).gateway()))
    except PhaseError:
        return 1
    except (SetupError, CommandError, OSError) as error:
        print(f"make up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make up: interrupted; the next run goes on from here", file=sys.stderr)
        return 130
    return 0


def interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
