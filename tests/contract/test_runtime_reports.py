"""What the runtime tells of its model and of its loading is what the operator reads."""

import json

import httpx

from forebay_operator.causes import DOWNLOAD_STALLED, LOAD_STALLED, NO_ROOM
from forebay_operator.reports import Loading, parse_footprint, parse_loading
from forebay_runtime.progress import Progress
from forebay_runtime.server.loading import reply, stalled
from forebay_runtime.sources.room import Room, lacking
from tests.contract.test_runtime_surface import Toy
from tests.support.toy_server import FOOTPRINT


def test_the_operator_reads_what_the_model_takes() -> None:
    toy = Toy()
    try:
        told = parse_footprint(httpx.get(toy.url + "/version").json())
    finally:
        toy.end()
    assert (told.parameters, told.weight_bytes, told.quantization) == (1000, 4000, "none")
    assert (told.kv_bytes_per_token, told.own_bytes) == (FOOTPRINT.kv_bytes_per_token, FOOTPRINT.other_bytes)


def test_the_operator_reads_how_far_the_loading_is() -> None:
    progress = Progress()
    progress.expect(400)
    progress.add(100)
    answer = json.loads(reply(progress, progress.began + 2).split(b"\r\n\r\n")[1])
    assert parse_loading("p", answer) == Loading("p", 100, 400, 2.0)


def test_the_operator_knows_the_last_words_of_a_load_that_stands_still() -> None:
    progress = Progress()
    assert LOAD_STALLED in (stalled(progress, 1, progress.advanced + 2) or "")
    progress = Progress("downloading")
    assert DOWNLOAD_STALLED in (stalled(progress, 1, progress.advanced + 2) or "")


def test_the_operator_reads_how_far_a_download_is_that_was_begun_before() -> None:
    progress = Progress("downloading")
    progress.expect(400, 100)
    progress.reach(300)
    answer = json.loads(reply(progress, progress.began + 2).split(b"\r\n\r\n")[1])
    assert parse_loading("p", answer, downloads=True) == Loading("p", 300, 400, 2.0, before=100, downloads=True)


def test_the_operator_knows_the_words_of_a_download_that_has_no_room() -> None:
    assert NO_ROOM in (lacking({"a": 2}, Room(there=0, free=1)) or "")
