"""`forebay-runtime fetch s3://…` against a small S3."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3_server import BUCKET, KEY_ID, Store, serving

MODEL = {
    "config.json": b"{}",
    "model-00001-of-00002.safetensors": b"weights." * 300_000,
    "model-00002-of-00002.safetensors": b"more weights",
    "adapters/poet/adapter_model.safetensors": b"verses",
    "empty.txt": b"",
}
LARGE = "model-00001-of-00002.safetensors"
SOURCE = f"s3://{BUCKET}/llama"
FETCH = [sys.executable, "-m", "forebay_runtime", "fetch"]


@pytest.fixture
def store() -> Iterator[Store]:
    others = {"llama2/config.json": b"another model's", "llama": b"no directory"}
    with serving(Store({f"llama/{name}": content for name, content in MODEL.items()} | others)) as found:
        yield found


def environment(store: Store, key_id: str = KEY_ID) -> dict[str, str]:
    own = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": "the-secret", "AWS_ENDPOINT_URL": store.url}
    return {**os.environ, **own}


def fetch(
    store: Store, to: Path, *options: str, source: str = SOURCE, key_id: str = KEY_ID
) -> subprocess.CompletedProcess[str]:
    command = [*FETCH, source, str(to), *options]
    return subprocess.run(command, env=environment(store, key_id), capture_output=True, text=True, timeout=100)


def killed_half_way(store: Store, to: Path, parts: int = 1) -> None:
    """A download, when so many files whose names begin as LARGE have begun to come."""
    store.pause = 0.05
    with subprocess.Popen([*FETCH, SOURCE, str(to)], env=environment(store)) as process:
        while sum(p.stat().st_size > 0 for p in to.glob(f".{LARGE}.*.part")) < parts:
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
    store.pause = 0.0


def files(of: Path) -> dict[str, bytes]:
    found = (p for p in of.rglob("*") if p.is_file() and p.name != ".forebay-whole")
    return {str(p.relative_to(of)): p.read_bytes() for p in found}


@pytest.mark.parametrize("source", [SOURCE, f"{SOURCE}/"])
def test_all_below_the_prefix_is_brought_and_nothing_beside_it(store: Store, source: str, tmp_path: Path) -> None:
    done = fetch(store, tmp_path / "model", source=source)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "model") == MODEL


def test_the_empty_objects_that_consoles_make_for_folders_are_no_files(store: Store, tmp_path: Path) -> None:
    store.objects |= {"llama/": b"", "llama/adapters/": b"", "llama/adapters/poet/": b""}
    done = fetch(store, tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "model") == MODEL


def test_a_public_bucket_needs_no_key(store: Store, tmp_path: Path) -> None:
    store.public = True
    plain = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    own = {"AWS_SKIP_SIGNATURE": "true", "AWS_ENDPOINT_URL": store.url}
    command = [*FETCH, SOURCE, str(tmp_path / "model")]
    done = subprocess.run(command, env={**plain, **own}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_what_is_whole_is_not_asked_for_again(store: Store, tmp_path: Path) -> None:
    assert fetch(store, tmp_path / "model").returncode == 0
    store.asked.clear()
    store.url = "http://127.0.0.1:9"
    assert fetch(store, tmp_path / "model").returncode == 0
    assert store.asked == []


def test_connections_that_are_cut_half_way_are_gone_on_with(store: Store, tmp_path: Path) -> None:
    store.cuts = 3
    done = fetch(store, tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "model") == MODEL
    assert any(begin > 0 for _, begin in store.asked)


def test_a_download_that_was_killed_is_gone_on_with(store: Store, tmp_path: Path) -> None:
    to = tmp_path / "model"
    killed_half_way(store, to)
    store.asked.clear()
    assert fetch(store, to).returncode == 0
    assert files(to) == MODEL
    assert [begin for name, begin in store.asked if name.endswith(LARGE)] == [1 << 20]


def test_a_part_of_a_file_is_not_taken_for_that_of_one_whose_name_its_own_begins_with(
    store: Store, tmp_path: Path
) -> None:
    to = tmp_path / "model"
    longer = store.objects[f"llama/{LARGE}.v3"] = b"version." * 300_000
    killed_half_way(store, to, parts=2)
    store.asked.clear()
    assert fetch(store, to).returncode == 0
    assert files(to) == MODEL | {f"{LARGE}.v3": longer}
    assert all(begin for name, begin in store.asked if LARGE in name)


def test_half_of_what_is_another_object_now_is_not_gone_on_with(store: Store, tmp_path: Path) -> None:
    to = tmp_path / "model"
    killed_half_way(store, to)
    store.objects[f"llama/{LARGE}"] = b"others.." * 300_000
    assert fetch(store, to).returncode == 0
    assert (to / LARGE).read_bytes() == b"others.." * 300_000
    assert not list(to.glob(".*.part"))


def test_what_had_come_whole_is_not_kept_when_it_is_another_object_of_that_size_now(
    store: Store, tmp_path: Path
) -> None:
    to = tmp_path / "model"
    killed_half_way(store, to)
    store.objects["llama/config.json"] = b"[]"
    assert fetch(store, to).returncode == 0
    assert files(to) == MODEL | {"config.json": b"[]"}


def test_a_download_that_stands_still_ends_with_these_words(store: Store, tmp_path: Path) -> None:
    store.pause = 15.0
    done = fetch(store, tmp_path / "model", "--stall-budget", "3")
    assert done.returncode == 1
    assert "downloading has stalled: no byte of the model came for 3 s, at 0.0 of 0.0 GB" in done.stderr


@pytest.mark.parametrize(
    ("source", "key_id", "words"),
    [
        (SOURCE, "ANOTHER", "InvalidAccessKeyId"),
        ("s3://no-such-bucket/llama", KEY_ID, "NoSuchBucket"),
        (f"s3://{BUCKET}/nothing", KEY_ID, "there is no object below it"),
    ],
)
def test_a_failure_is_one_last_line(store: Store, source: str, key_id: str, words: str, tmp_path: Path) -> None:
    done = fetch(store, tmp_path / "model", source=source, key_id=key_id)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"forebay-runtime: {source} can't be fetched: ")
    assert words in last
    assert "the-secret" not in done.stderr


def test_what_has_no_room_is_refused_before_a_byte_is_written(store: Store, tmp_path: Path) -> None:
    done = fetch(store, tmp_path / "model", "--most", "1Mi")
    total = sum(map(len, MODEL.values()))
    words = (
        f"no room: its 5 files have {total:,} bytes, and the volume is to hold 1,048,576: {total - 2**20:,} too many"
    )
    assert done.returncode == 1
    assert words in done.stderr
    assert files(tmp_path / "model") == {}
    assert store.asked == []
