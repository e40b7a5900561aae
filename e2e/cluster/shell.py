"""Runs commands: each with a time limit, each with its output in the log of the phase that it belongs to.

Whatever is started carries a mark in its environment (`FOREBAY_CLUSTER`). By it a later run, from any clone, finds what
a run that was cut off has left behind, without process id files that may lie.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARK = "FOREBAY_CLUSTER"
COMMAND = "command"
LOGGED = 4000
"""How much of an answer that a command was asked for is written into the log."""


class CommandError(Exception):
    """A command failed or took too long; the message has the end of its output and the place of the whole."""


def mark(root: Path, *words: str) -> str:
    return "|".join([str(root), *words])


@dataclass(frozen=True, slots=True)
class Shell:
    log: Path
    root: Path
    path: str
    """Folders to search for programs, before those of the environment."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(
        self,
        *argv: str | Path,
        seconds: float,
        stdin: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """All output goes into the log, as it comes. Raises CommandError unless the command exits 0 in time."""
        self._logged([str(word) for word in argv], seconds, stdin, cwd, env or {}, capture=False)

    def read(self, *argv: str | Path, seconds: float, stdin: str = "") -> str:
        """As `run`, but returns what the command printed on stdout."""
        return self._logged([str(word) for word in argv], seconds, stdin, None, {}, capture=True)

    def _logged(
        self, words: list[str], seconds: float, stdin: str, cwd: Path | None, env: Mapping[str, str], *, capture: bool
    ) -> str:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", errors="replace") as log:
            log.write(f"\n$ {' '.join(words)}\n")
            log.flush()
            began = time.monotonic()
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if capture else log,
                    stderr=log,
                    text=True,
                    errors="replace",
                    cwd=cwd,
                    env=self._environ(env),
                    start_new_session=True,  # so that the whole of it can be ended
                )
            except OSError as error:
                log.write(f"[{error}]\n")
                raise CommandError(f"cannot run {words[0]}: {error}") from error
            code, out = finish(process, stdin, seconds)
            log.write(
                f"{out[:LOGGED]}[{'timed out' if code is None else f'exit {code}'}, {time.monotonic() - began:.1f} s]\n"
            )
        if code is None:
            raise CommandError(f"`{short(words)}` was still running after {seconds:.0f} s\n{tail(self.log)}")
        if code:
            raise CommandError(f"`{short(words)}` ended with exit code {code}\n{tail(self.log)}")
        return out

    def succeeds(self, *argv: str | Path, seconds: float = 20) -> bool:
        """Asks a question: a non-zero exit is an answer, and is not logged."""
        try:
            done = subprocess.run(
                [str(word) for word in argv], capture_output=True, timeout=seconds, env=self._environ({}), check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def _environ(self, env: Mapping[str, str]) -> dict[str, str]:
        path = f"{self.path}:{self.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}:/usr/sbin:/sbin"
        return {**self.environ, "PATH": path, MARK: mark(self.root, COMMAND), **env}


def finish(process: subprocess.Popen[str], stdin: str, seconds: float) -> tuple[int | None, str]:
    """The exit code and the output; None for the code when time was up. Nothing of it is left running."""
    try:
        out, _ = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        end_group(process)
        return None, ""
    except BaseException:
        end_group(process)
        raise
    return process.returncode, out or ""


def end_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def short(words: Sequence[str], limit: int = 160) -> str:
    line = " ".join(words)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def tail(log: Path, lines: int = 12) -> str:
    """The last lines that say something, of the last command in it."""
    try:
        text = log.read_text(errors="replace")[-20000:]
    except OSError:
        return ""
    _, command, rest = text.rpartition("\n$ ")
    said = [line.rstrip() for line in rest.splitlines()[1 if command else 0 :] if line.strip()]
    return "\n".join(f"    {line[:300]}" for line in said[-lines:])


def until(answer: Callable[[], str], *, seconds: float, every: float = 0.2) -> None:
    """Asks again and again what is still missing; the empty string ends it. CommandError when time is up."""
    deadline = time.monotonic() + seconds
    while missing := answer():
        if time.monotonic() > deadline:
            raise CommandError(f"after {seconds:.0f} s still waiting: {missing}")
        time.sleep(every)
