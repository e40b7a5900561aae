"""`make down`: ends the cluster and leaves no process, mount, namespace, route or cgroup of it.

The built programs and images stay in FOREBAY_STATE, so that the next `make up` is quick.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from e2e.cluster import leftovers, lock, tools
from e2e.cluster.phases import Phase, PhaseError, Report, Say, run
from e2e.cluster.shell import CommandError, Shell
from e2e.cluster.state import CHECKOUT, SetupError, State, state_of


def take_away(shell: Shell, state: State) -> str:
    leftovers.sweep(state)
    leftovers.take_away(shell, state)
    return f"nothing of it runs or is mounted any more; programs and images stay in {state.root}"


def main() -> int:
    state, report, began = state_of(os.environ), Report(), time.monotonic()

    def phase(shell: Shell, _: Say) -> str:
        return take_away(shell, state)

    try:
        tools.require_root()
        with lock.held(f"make down in {CHECKOUT}", partial(report.line, "lock")):
            run(report, state, Phase("down", phase))
    except PhaseError:
        return 1
    except (SetupError, CommandError, OSError) as error:
        print(f"make down: {error}", file=sys.stderr)
        return 1
    report.line("down", f"done in {time.monotonic() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
