"""The traps of this tree's own shape, and what must never be in it."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def test_the_operator_folder_does_not_hide_the_standard_library() -> None:
    done = subprocess.run([sys.executable, "-S", "-c", "import collections"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_operator_folder_is_no_package() -> None:
    loose = [p.name for p in (ROOT / "operator").iterdir() if p.suffix == ".py"]
    assert not loose, f"operator/ holds no Python files of its own: {loose}"


def test_lock_files_name_no_index() -> None:
    for lock in (ROOT / "requirements").glob("*.lock"):
        named = [line for line in lock.read_text().splitlines() if "://" in line or line.startswith(("-i", "--index"))]
        assert not named, f"{lock.name}: {named}"
