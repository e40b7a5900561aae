"""What this process may use: the cgroup's limits, where they are smaller than the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forebay_runtime.machine import available_memory, cpus, held_memory

MEMINFO = "MemTotal:       8000000 kB\nMemFree:        1000000 kB\nMemAvailable:   4000000 kB\n"


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text(MEMINFO)
    return file


def write(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_of_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return root


def test_a_quota_is_a_fraction_of_the_cpus(tmp_path: Path) -> None:
    assert cpus(write(tmp_path, cpu_of_max="50000 100000\n")) == 0.5
    assert cpus(write(tmp_path, cpu_of_max="max 100000\n")) == len(os.sched_getaffinity(0))


def test_the_quota_of_the_first_cgroups(tmp_path: Path) -> None:
    files = {"cpu__cpu_of_cfs_quota_us": "50000", "cpu__cpu_of_cfs_period_us": "100000"}
    assert cpus(write(tmp_path, **files)) == 0.5
    assert cpus(write(tmp_path, **files | {"cpu__cpu_of_cfs_quota_us": "-1"})) >= 1


def test_without_a_limit_memory_is_what_the_machine_has_left(tmp_path: Path, meminfo: Path) -> None:
    assert available_memory(tmp_path / "none", meminfo) == 4_000_000 * 1024
    unlimited = write(tmp_path, memory_of_max="max\n", memory_of_current="5\n")
    assert available_memory(unlimited, meminfo) == 4_000_000 * 1024


def test_a_limit_leaves_what_is_not_used_and_what_can_be_dropped(tmp_path: Path, meminfo: Path) -> None:
    stat = "anon 700\ninactive_file 100\nactive_file 50\n"
    cgroup = write(tmp_path, memory_of_max="2000\n", memory_of_current="900\n", memory_of_stat=stat)
    assert available_memory(cgroup, meminfo) == 1200
    write(tmp_path, memory_of_current="9000\n")
    assert available_memory(cgroup, meminfo) == 0


def test_what_no_file_stands_behind_is_held(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmRSS:\t  900 kB\nRssAnon:\t     500 kB\nRssFile:\t     400 kB\n")
    assert held_memory(status) == 500 * 1024
