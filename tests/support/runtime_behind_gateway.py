"""`python runtime_behind_gateway.py MODEL NAME PORT [--api-key KEY]`: a runtime, and a gateway at PORT in front of it.

For suites that start their own server. The gateway begins to listen when the runtime is ready, so that its first answer
holds for both. SIGTERM goes to the gateway first, and to the runtime once the gateway has let its streams end; the exit
status is 0 if theirs are.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = pathlib.Path(sys.executable).parent
READY_SECONDS = 170


class ToldToEnd(Exception):
    """SIGTERM came."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("--api-key")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, told_to_end)
    processes: list[subprocess.Popen[bytes]] = []
    fault = 1
    with tempfile.TemporaryDirectory() as directory, contextlib.suppress(ToldToEnd):
        fault = serve(args, pathlib.Path(directory), processes)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    codes = [ended(process) for process in reversed(processes)]
    return max(codes) if len(processes) == 2 and not fault else 1


def told_to_end(*_: object) -> None:
    raise ToldToEnd


def serve(args: argparse.Namespace, directory: pathlib.Path, processes: list[subprocess.Popen[bytes]]) -> int:
    """Serves until SIGTERM, or until one of the two ends by itself."""
    port = free_port()
    options = ["--served-model-name", args.name, "--max-model-len", "2048", "--host", "127.0.0.1", "--port", str(port)]
    processes.append(started("forebay-runtime", "serve", args.model, *options))
    if not ready(processes[0], port):
        return 1
    options = ["--host", "127.0.0.1", "--port", str(args.port), "--upstream", f"{args.name}=http://127.0.0.1:{port}"]
    if args.api_key:
        keys = directory / "keys"
        keys.write_text(args.api_key + "\n")
        options += ["--api-keys-file", str(keys)]
    processes.append(started("forebay", "gateway", *options))
    with contextlib.suppress(ToldToEnd):
        while all(process.poll() is None for process in processes):
            time.sleep(0.2)
        return 1
    return 0


def started(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(BIN / program), *arguments])


def ended(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    return abs(process.wait())


def ready(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
            return True
        time.sleep(0.1)
    return False


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
