"""Processes are recognised by the mark in their environment."""

from __future__ import annotations

from pathlib import Path

from e2e.cluster.processes import Process, marked, parse
from e2e.cluster.shell import Shell, mark


def test_a_daemon_is_parsed_from_its_mark() -> None:
    environ = f"PATH=/bin\0FOREBAY_CLUSTER={mark(Path('/state'), 'daemon', 'etcd', 'k1')}\0HOME=/root\0".encode()
    found = parse(5, b"/state/bin/etcd\0--data-dir=x\0", environ, 7)
    assert found == Process(5, "/state/bin/etcd", "/state", "daemon", "etcd", "k1", 7)
    assert found.is_daemon


def test_what_a_daemon_has_started_is_not_the_daemon() -> None:
    environ = b"FOREBAY_CLUSTER=/state|daemon|containerd|k1\0"
    found = parse(6, b"/state/bin/containerd-shim-runc-v2\0", environ, 7)
    assert found is not None
    assert not found.is_daemon


def test_unmarked_and_foreign_marks_are_left_alone() -> None:
    assert parse(5, b"etcd\0", b"PATH=/bin\0", 7) is None
    assert parse(5, b"etcd\0", b"FOREBAY_CLUSTER=/state\0", 7) is None
    assert parse(5, b"etcd\0", b"FOREBAY_CLUSTER=/state|else\0", 7) is None
    assert parse(5, b"etcd\0", b"X=FOREBAY_CLUSTER=/state|daemon|etcd|k1\0", 7) is None


def test_what_a_shell_starts_is_found_in_proc(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "log", tmp_path, "/nowhere")
    shown = shell.read("python3", "-c", "print(open('/proc/self/environ').read().replace(chr(0), chr(10)))", seconds=20)
    assert f"FOREBAY_CLUSTER={tmp_path}|command" in shown.splitlines()
    assert all(process.root != str(tmp_path) for process in marked())
