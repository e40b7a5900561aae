"""`forebay-runtime fetch` against a small hub."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.hub import Hub

REPOSITORY, TOKEN = "org/name", "hf_secret"
WANTED = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "chat_template.jinja": b"x",
    "model-00001-of-00002.safetensors": b"weights" * 1000,
    "model-00002-of-00002.safetensors": b"more weights",
}
UNWANTED = {"pytorch_model.bin": b"old weights", "onnx/model.onnx": b"other weights", "README.md": b"words"}


class QuietHub(Hub):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "hub"
    for name, content in (WANTED | UNWANTED).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    QuietHub.folder, QuietHub.repository, QuietHub.token = folder, REPOSITORY, TOKEN
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def environment(hub: str, to: Path, token: str = TOKEN) -> dict[str, str]:
    return {**os.environ, "HF_ENDPOINT": hub, "HF_TOKEN": token, "HF_HOME": str(to.parent / "home")}


def fetch(hub: str, source: str, to: Path, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay_runtime", "fetch", source, str(to)]
    return subprocess.run(command, env=environment(hub, to, token), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("source", ["hf://org/name", "hf://org/name@main"])
def test_what_the_runtime_reads_is_brought(hub: str, source: str, tmp_path: Path) -> None:
    to = tmp_path / "model"
    done = fetch(hub, source, to)
    assert done.returncode == 0, done.stderr
    assert {p.name: p.read_bytes() for p in to.iterdir() if p.is_file() and p.name != ".forebay-whole"} == WANTED
    assert fetch(hub, source, to).returncode == 0, "a restarted pod fetches again"


@pytest.mark.parametrize(
    ("source", "token", "words"),
    [
        ("hf://org/other", TOKEN, "hf://org/other can't be fetched"),
        ("hf://org/name", "wrong", "hf://org/name can't be fetched"),
        ("hf://name", TOKEN, "no source of the form hf://org/name[@revision]"),
        ("gs://org/name", TOKEN, "no source of the form hf://org/name[@revision] or s3://bucket[/prefix]"),
    ],
)
def test_a_failure_is_one_last_line(hub: str, source: str, token: str, words: str, tmp_path: Path) -> None:
    done = fetch(hub, source, tmp_path / "model", token)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("forebay-runtime: ")
    assert words in last
    assert token not in done.stderr


def test_a_hub_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    done = fetch("http://127.0.0.1:9", "hf://org/name", tmp_path / "model")
    assert done.returncode == 1
    assert "can't be fetched" in done.stderr.splitlines()[-1]


def test_a_repository_without_weights_is_a_failure(hub: str, tmp_path: Path) -> None:
    for file in (tmp_path / "hub").glob("*.safetensors"):
        file.unlink()
    done = fetch(hub, "hf://org/name", tmp_path / "model")
    assert done.returncode == 1
    assert "holds no weights" in done.stderr.splitlines()[-1]


def test_sigterm_ends_it_at_once_even_where_signals_have_no_default(tmp_path: Path) -> None:
    """As process 1 of a container it would ignore a signal without a handler."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hub = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "forebay_runtime", "fetch", "hf://org/name", str(tmp_path / "model")]
        process = subprocess.Popen(command, env=environment(hub, tmp_path / "model"))
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 128 + signal.SIGTERM
