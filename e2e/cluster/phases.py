"""Runs phases, tells what each does and how long it took, and what a failed one failed of."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from e2e.cluster.shell import CommandError, Shell
from e2e.cluster.state import SetupError, State

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    run: Callable[[Shell, Say], str]
    """Returns in a few words what was done; raises CommandError or SetupError."""


class PhaseError(Exception):
    """Has been told already."""


class Report:
    """Lines of phases that may run side by side: each line is whole, and begins with its phase."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.took: list[tuple[str, float]] = []

    def line(self, name: str, text: str) -> None:
        with self._lock:
            print(f"{name:<10}{text}", flush=True)

    def failure(self, name: str, text: str) -> None:
        with self._lock:
            sys.stdout.flush()
            print(text, file=sys.stderr, flush=True)


def run(report: Report, state: State, *phases: Phase) -> None:
    """One after the other; stops at the first that fails, with PhaseError."""
    for phase in phases:
        log = state.log / f"{phase.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        began = time.monotonic()
        report.line(phase.name, "…")
        try:
            done = phase.run(Shell(log, state.root, str(state.bin)), partial(report.line, phase.name))
        except (CommandError, SetupError, OSError) as error:
            seconds = time.monotonic() - began
            text = f"\n{phase.name} FAILED after {seconds:.1f} s: {error}\n  its log: {log}"
            report.failure(phase.name, text)
            raise PhaseError(phase.name) from error
        seconds = time.monotonic() - began
        report.took.append((phase.name, seconds))
        report.line(phase.name, f"{done}  ({seconds:.1f} s)")


def side_by_side(*branches: Callable[[], None]) -> None:
    """Waits for all; a failed branch lets the others end first, so that their work is kept."""
    failed: list[BaseException] = []

    def guarded(branch: Callable[[], None]) -> None:
        try:
            branch()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(branch,), daemon=True) for branch in branches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
