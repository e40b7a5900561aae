"""`python runtime_behind_gateway.py MODEL NAME PORT [--api-key KEY]`: a runtime, and a gateway at PORT in front of it.

For suites that start their own server. The gateway begins to listen when the runtime is ready, so that its first answer
holds for both. SIGTERM goes to the gateway first, and to the runtime once the gateway has let its streams end.
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
READY_SECONDS = 120


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("--api-key")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.ExitStack() as stack:
        port = free_port()
        serve = ["forebay-runtime", "serve", args.model, "--served-model-name", args.name, "--port", str(port)]
        runtime = started(stack, *serve)
        wait_until_ready(runtime, port)
        front = ["forebay", "gateway", "--host", "127.0.0.1", "--port", str(args.port)]
        front += ["--upstream", f"{args.name}=http://127.0.0.1:{port}"]
        if args.api_key:
            front += ["--api-keys-file", key_file(stack, args.api_key)]
        gateway = started(stack, *front)
        while gateway.poll() is None and runtime.poll() is None:
            time.sleep(0.2)
        return 1


def started(stack: contextlib.ExitStack, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([str(BIN / program), *arguments])
    stack.callback(ended, process)
    return process


def ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if code := process.wait():
        sys.exit(code)


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
            return
        time.sleep(0.1)
    sys.exit("the runtime did not become ready")


def key_file(stack: contextlib.ExitStack, key: str) -> str:
    file = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "keys"
    file.write_text(key + "\n")
    return str(file)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
