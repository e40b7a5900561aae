"""Tries grammars in a process of their own, where one that takes too long or too much ends nothing else.

What passes here is compiled again in the server's process, in the same time: that can't be interrupted, so it must be
known to end. `python -m forebay_runtime.text.grammar_trial` is that process: it reads pickles (the words
and the bound, then GrammarSources) and writes a line of JSON for each.
"""

from __future__ import annotations

import json
import pickle
import resource
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

from forebay_runtime.text.grammar_source import GrammarError, GrammarSource, translated
from forebay_runtime.text.matcher import Words, make_matcher, make_vocabulary

CPU_SECONDS = 3
_START_SECONDS, _WALL_SECONDS = 60.0, 30.0  # a machine may be crowded; the CPU time is what counts
_MEMORY = 2 << 30  # bytes of address space


class GrammarTrial:
    """Not thread-safe. The process starts with the first grammar and ends with this object, or with ours."""

    def __init__(self, words: Words, cpu_seconds: int = CPU_SECONDS) -> None:
        self._words, self._cpu_seconds = words, cpu_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Any] | None = None

    def translate(self, source: GrammarSource) -> str:
        """llguidance's form of a grammar that can be compiled. GrammarError with the reason where it can't."""
        reply = self._ask(source)
        if reply is None:
            self.close()
            raise GrammarError(f"compiling it takes more than {self._cpu_seconds} s, or too much memory")
        if "error" in reply:
            raise GrammarError(reply["error"])
        return str(reply["grammar"])

    def close(self) -> None:
        if self._end is not None:
            self._end()
        self._process = self._end = None

    def _ask(self, source: GrammarSource) -> dict[str, Any] | None:
        return _exchange(self._started(), source, _WALL_SECONDS)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        command = [sys.executable, "-m", __name__]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        self._end = weakref.finalize(self, _end, process)
        if _exchange(process, (self._words, self._cpu_seconds), _START_SECONDS) is None:
            self.close()
            raise RuntimeError("the process that tries grammars does not start")
        return process


def _exchange(process: subprocess.Popen[bytes], question: object, seconds: float) -> dict[str, Any] | None:
    """None where the process ends or doesn't answer in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _write(process.stdin, pickle.dumps(question))
    except BrokenPipeError:
        return None
    deadline = time.monotonic() + seconds
    answer = b""
    while not answer.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        part = process.stdout.read(1 << 16) if ready else b""
        if not part:
            return None
        answer += part
    reply: dict[str, Any] = json.loads(answer)
    return reply


def _write(stream: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    words: Words
    cpu_seconds: int
    words, cpu_seconds = pickle.load(questions)
    vocabulary = make_vocabulary(words, _longest_first(words))
    _answer(answers, {})
    while True:
        try:
            source: GrammarSource = pickle.load(questions)
        except EOFError:
            return
        _bound_time(cpu_seconds)
        _answer(answers, _tried(source, vocabulary, words.size))


def _longest_first(words: Words) -> Callable[[str], list[int]]:
    """Stands in for the tokenizer: for a trial it is enough that every text has tokens."""
    ids = {token: i for i, token in enumerate(words.tokens)}
    longest = max(map(len, words.tokens))

    def encode(text: str) -> list[int]:
        data, at, found = text.encode(), 0, []
        while at < len(data):
            end = next((e for e in range(min(at + longest, len(data)), at, -1) if data[at:e] in ids), at + 1)
            found += [ids[data[at:end]]] if data[at:end] in ids else []
            at = end
        return found

    return encode


def _bound_time(cpu_seconds: int) -> None:
    """The kernel ends the process once it has used more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _tried(source: GrammarSource, vocabulary: Any, size: int) -> dict[str, str]:
    try:
        grammar = translated(source)
        make_matcher(vocabulary, grammar, size)
    except GrammarError as e:
        return {"error": str(e)}
    except (MemoryError, RecursionError):
        return {"error": "it is too large or nested too deeply"}
    return {"grammar": grammar}


def _answer(stream: Any, reply: dict[str, str]) -> None:
    stream.write(json.dumps(reply).encode() + b"\n")
    stream.flush()


if __name__ == "__main__":
    _main()
