"""Commands: their limits, their logs and what is said when they fail."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from e2e.cluster import lock
from e2e.cluster.phases import Phase, PhaseError, Report, run, side_by_side
from e2e.cluster.shell import CommandError, Shell
from e2e.cluster.state import State


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "log/phase.log", tmp_path, "/nowhere")


def test_a_failed_command_tells_its_exit_code_and_last_words(shell: Shell) -> None:
    with pytest.raises(CommandError, match=r"exit code 3(.|\n)*last words"):
        shell.run("sh", "-c", "echo last words >&2; exit 3", seconds=10)
    assert "exit 3" in shell.log.read_text()


def test_a_command_that_takes_too_long_is_ended_with_its_children(shell: Shell, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(CommandError, match="still running after"):
        shell.run("sh", "-c", "sleep 60 & sleep 60", seconds=0.3)
    assert time.monotonic() - began < 10


def test_a_missing_program_is_named(shell: Shell) -> None:
    with pytest.raises(CommandError, match="no-such-program"):
        shell.run("no-such-program", seconds=10)
    assert not shell.succeeds("no-such-program")


def test_output_is_returned_and_logged(shell: Shell) -> None:
    assert shell.read("cat", seconds=10, stdin="hello") == "hello"
    assert "hello" in shell.log.read_text()


def test_a_failing_phase_says_which_why_and_where_its_log_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phases = (
        Phase("first", lambda shell, say: "well"),
        Phase("second", lambda shell, say: shell.read("sh", "-c", "echo because >&2; exit 1", seconds=10)),
        Phase("third", lambda shell, say: "never"),
    )
    with pytest.raises(PhaseError, match="second"):
        run(Report(), State(tmp_path), *phases)
    told = capsys.readouterr()
    assert "first" in told.out
    assert "third" not in told.out
    assert "second FAILED" in told.err
    assert "because" in told.err
    assert str(tmp_path / "log/second.log") in told.err


def test_a_failed_branch_lets_the_other_one_end() -> None:
    done = []

    def fails() -> None:
        raise PhaseError("one")

    with pytest.raises(PhaseError, match="one"):
        side_by_side(fails, lambda: done.append("other"))
    assert done == ["other"]


def test_a_second_run_waits_for_the_first_and_says_for_whom(tmp_path: Path) -> None:
    file, said = tmp_path / "lock", list[str]()
    with lock.held("make up in /clone", said.append, file=file):
        other = lock.held("make up in /other", said.append, seconds=0, file=file)
        with pytest.raises(CommandError, match="make up in /clone"), other:
            pass
    assert "make up in /clone" in said[0]
    with lock.held("make down", said.append, file=file):
        assert "make down" in file.read_text()
    assert file.read_text() == ""
