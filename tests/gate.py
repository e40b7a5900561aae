"""The gate: `python -m tests.gate check|test [STAGE ...]` runs its stages in order and says where the time went.

`check` needs no cluster. `test` adds the HTTP suite on a live runtime, direct and through the gateway, and on a real
cluster the stories in e2e/ and the operator suite. Asked for by name: other makers' engines, whose images take long to
build. A failed stage stops those that need it, no others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).parents[1]
BIN = ROOT / ".venv/bin"
LOGS = ROOT / ".state/gate"
SUITES = pathlib.Path(os.environ.get("FOREBAY_CONFORMANCE", ROOT.parent / "shared/conformance"))
MODEL = "smollm2"
CONTEXT = "2048"  # enough for every case; with the model's own 8192 the cases at its end take minutes of prefill


class StageError(Exception):
    """A stage that did not end well; the message names its command and its log."""


class NotHere(Exception):
    """What a stage runs is no part of this checkout and not beside it either: said in the sum, and no failure."""


@dataclasses.dataclass(frozen=True)
class Stage:
    name: str
    run: Callable[[], None]
    needs: str = ""


# ------------------------------------------------------------------ running things
def sh(*command: str | pathlib.Path, cwd: pathlib.Path = ROOT, minutes: float = 10, **env: str) -> None:
    """Run in the foreground; its output is the stage's."""
    argv = [str(c) for c in command]
    print("$", " ".join(argv), flush=True)
    whole = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | env
    try:
        done = subprocess.run(argv, cwd=cwd, env=whole, timeout=minutes * 60, check=False)
    except subprocess.TimeoutExpired as e:
        raise StageError(f"{argv[0]} took longer than {minutes:.0f} minutes") from e
    if done.returncode:
        raise StageError(f"exit {done.returncode}: {' '.join(argv)}")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def serving(name: str, *command: str | pathlib.Path, port: int, seconds: float = 120) -> Iterator[str]:
    """A server in the background until the block ends; yields its address once /ready says so."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    with log.open("w") as out:
        argv = [str(c) for c in command]
        process = subprocess.Popen(argv, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        try:
            wait_ready(f"http://127.0.0.1:{port}", process, log, seconds)
            yield f"http://127.0.0.1:{port}"
        finally:
            end(process)


def wait_ready(url: str, process: subprocess.Popen[bytes], log: pathlib.Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StageError(f"ended with {process.returncode} at start; see {log}:\n{log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(url + "/ready", timeout=5) as reply:
            if reply.status == 200:
                return
        time.sleep(0.2)
    raise StageError(f"not ready in {seconds:.0f} s; see {log}")


def end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


# ------------------------------------------------------------------ stages without a cluster
CODE = ("operator/src", "runtime/src", "tests", "e2e", "bench")


def format_() -> None:
    sh(BIN / "ruff", "format", "--check", *CODE)


def lint() -> None:
    sh(BIN / "ruff", "check", *CODE)


def types() -> None:
    sh(BIN / "mypy", "operator/src", "runtime/src", "tests", "e2e", "bench")


def layers() -> None:
    sh(BIN / "lint-imports")


def unit() -> None:
    workers = ["-n", "logical", "--maxprocesses", "4", "--dist", "worksteal"]  # each holds torch: half a gigabyte
    sh(BIN / "python", "-m", "pytest", "tests", "-q", "--durations=8", *workers, OMP_NUM_THREADS="1")


# ------------------------------------------------------------------ the HTTP suite on a live runtime
def suite(name: str) -> pathlib.Path:
    where = SUITES / name
    if not where.is_dir():
        raise NotHere(f"no conformance suite at {where}: set FOREBAY_CONFORMANCE to the folder that holds {name}/")
    return where


def http_cases(url: str, launcher: str) -> None:
    common = ["-q", "--policy", "strict", "--tie-eps", "0", "--require", "all", "-p", "no:asyncio"]
    server = ["--server-cmd", launcher, "--server-cmd-auth", launcher + " --api-key {api_key}"]
    where = ["--base-url", url, "--model", MODEL]
    sh(BIN / "python", "-m", "pytest", "cases", *where, *common, *server, cwd=suite("http"), minutes=20)


def runtime(port: int | str) -> list[str]:
    names = ["--served-model-name", MODEL, "--max-model-len", CONTEXT]
    return [f"{BIN}/forebay-runtime", "serve", f"{ROOT}/.models/{MODEL}", *names, "--port", str(port)]


def http_direct() -> None:
    suite("http")
    port = free_port()
    launcher = " ".join(runtime("{port}"))
    with serving("runtime", *runtime(port), port=port) as url:
        http_cases(url, launcher)


def http_gateway() -> None:
    suite("http")
    back, front = free_port(), free_port()
    launcher = f"{BIN}/python {ROOT}/tests/support/runtime_behind_gateway.py {ROOT}/.models/{MODEL} {MODEL} {{port}}"
    with (
        serving("runtime-behind", *runtime(back), port=back) as upstream,
        serving(
            "gateway", BIN / "forebay", "gateway", "--port", str(front), "--upstream", f"{MODEL}={upstream}", port=front
        ) as url,
    ):
        http_cases(url, launcher)


# ------------------------------------------------------------------ stages on a cluster
def kubeconfig() -> str:
    command = [sys.executable, "e2e/cluster/up.py", "--print-kubeconfig"]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout.strip()


def cluster() -> None:
    sh(sys.executable, "e2e/cluster/up.py", "--only", "chart", minutes=45)


def twice(name: str, first: Callable[[], None], second: Callable[[], None] | None = None) -> None:
    """What fails gets a second try, and is said to have needed it."""
    for attempt, run in (("first", first), ("second", second or first)):
        try:
            return run()
        except StageError as e:
            print(f"----- {name}: the {attempt} try failed: {e}", flush=True)
    raise StageError(f"{name} failed twice")


def told(folder: pathlib.Path, minutes: float) -> None:
    """Each story of the folder by itself, all of them whatever becomes of one; at most `minutes` each."""
    failed = []
    for story in sorted(folder.glob("test_*.py")):
        command = (BIN / "python", "-m", "pytest", story, "-q", "--durations=0")
        try:
            twice(story.name, functools.partial(sh, *command, minutes=minutes, KUBECONFIG=kubeconfig()))
        except StageError as e:
            failed.append(str(e))
    if failed:
        raise StageError("; ".join(failed))


def stories() -> None:
    told(ROOT / "e2e", minutes=12)


def engines() -> None:
    told(ROOT / "e2e/engines", minutes=30)


def operator_suite() -> None:
    # with "=", or pytest takes the files for tests and loads our e2e/conftest.py
    good = [f"--good={ROOT}/crds/examples/smollm2.yaml", f"--product={ROOT}/e2e/product.toml"]
    where = suite("operator")
    tools = pathlib.Path(os.environ.get("FOREBAY_STATE", "/var/lib/forebay")) / "bin"
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    env = {"KUBECONFIG": kubeconfig(), "PATH": path, "FOREBAY_CHECKOUT": str(ROOT)}
    command: list[str | pathlib.Path] = [BIN / "python", "-m", "pytest", "cases", "-q", "--durations=8", *good]
    # the suite's own options forbid the memory of what failed
    command += ["-p", "no:asyncio", "-o", "addopts=-ra --strict-markers", "-o", f"cache_dir={LOGS}/operator-suite"]
    whole = functools.partial(sh, *command, "--cache-clear", cwd=where, minutes=35, **env)
    twice("operator suite", whole, functools.partial(sh, *command, "--last-failed", cwd=where, minutes=20, **env))


CHECK = [Stage("format", format_), Stage("lint", lint), Stage("types", types), Stage("layers", layers)]
CHECK += [Stage("unit", unit)]
TEST = [
    *CHECK,
    Stage("http-direct", http_direct),
    Stage("http-gateway", http_gateway),
    Stage("cluster", cluster),
    Stage("stories", stories, needs="cluster"),
    Stage("operator-suite", operator_suite, needs="cluster"),
]
APART = [Stage("engines", engines, needs="cluster")]


def main(words: list[str]) -> int:
    plan = {"check": CHECK, "test": TEST}.get(words[0] if words else "")
    if plan is TEST and words[1:]:
        plan = TEST + APART
    names = {s.name for s in plan or []}
    if plan is None or set(words[1:]) - names:
        print(f"usage: python -m tests.gate check|test [{'|'.join(s.name for s in TEST + APART)} ...]", file=sys.stderr)
        return 2
    failed: dict[str, str] = {}
    rows: list[tuple[str, str, str, float]] = []
    for stage in [s for s in plan if not words[1:] or s.name in words[1:]]:
        began = time.monotonic()
        print(f"\n===== {stage.name}", flush=True)
        verdict, why = "ok", ""
        try:
            if stage.needs in failed:
                raise StageError(f"needs {stage.needs}, which failed")
            stage.run()
        except NotHere as e:
            verdict, why = "NOT RUN", str(e)
        except (StageError, OSError, subprocess.SubprocessError) as e:
            verdict, why = "FAILED", str(e)
            failed[stage.name] = why
        rows.append((stage.name, verdict, why, time.monotonic() - began))
    print("\n===== where the time went")
    for name, verdict, why, seconds in rows:
        print(f"{name:<16}{seconds:>8.1f} s   {verdict:<8}{why[:300]}")
    print(f"{'all':<16}{sum(r[3] for r in rows):>8.1f} s")
    passed = sum(verdict == "ok" for _, verdict, _, _ in rows)
    print(f"{passed} passed, {len(failed)} failed, {len(rows) - passed - len(failed)} not run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
