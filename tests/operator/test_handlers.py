"""Who wakes whom: the only thing that the kopf wiring decides."""

import asyncio
import pathlib
from typing import Any

import pytest

from forebay_operator.api_names import DOWNLOAD_LABEL, SERVICE_LABEL
from forebay_operator.cli import main
from forebay_operator.cluster.kept import Weight, about
from forebay_operator.handlers import Wiring
from tests.operator.builders import CONFIG, CREATED, SOURCE
from tests.operator.test_live_cluster import MemoryApi

OWNER = {"kind": "InferenceService", "name": "demo", "uid": "u"}


@pytest.mark.parametrize("argument", ["--engine-image=vllm", "--engine-image=vlm=image:1", "--lease=name"])
def test_an_argument_that_is_none_is_refused_by_name(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["operator", "--runtime-image=r:1", "--own-image=o:1", argument])
    assert argument.partition("=")[2] in capsys.readouterr().err


def test_profiles_that_are_not_understood_end_the_operator(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles.yaml").write_text("small: {cores: 1}")
    arguments = ["operator", "--runtime-image=r:1", "--own-image=o:1", f"--profiles-file={tmp_path / 'profiles.yaml'}"]
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)  # it would take the log's reader away
    assert main(arguments) == 1
    assert "small.cores" in caplog.text


class Woken(set[tuple[str, str]]):
    def __init__(self) -> None:
        super().__init__()
        self.urgent: set[tuple[str, str]] = set()

    def wake(self, key: tuple[str, str], *, urgent: bool = False) -> None:
        self.add(key)
        if urgent:
            self.urgent.add(key)


@pytest.fixture
def wiring() -> Wiring:
    found = Wiring(CONFIG, None, MemoryApi(), asyncio.Event())  # type: ignore[arg-type]
    found._queue = Woken()  # type: ignore[assignment]
    return found


async def child(wiring: Wiring, weight: Weight = Weight.NEWS, **meta: Any) -> set[tuple[str, str]]:
    wiring.child_changed(about({"metadata": {"name": "it", "namespace": "ns", **meta}}), weight)
    return wiring._queue  # type: ignore[return-value]


async def resource(wiring: Wiring, name: str, type: str | None = "ADDED", model: str = "m") -> set[tuple[str, str]]:
    wiring._queue.clear()  # type: ignore[attr-defined]
    stamps = {"uid": name, "generation": 1, "creationTimestamp": CREATED, "resourceVersion": "7"}
    meta = {"name": name, "namespace": "ns", **stamps}
    spec = {"model": {"source": SOURCE, "servedName": model}}
    await wiring.resource_event({"type": type, "object": {"metadata": meta, "spec": spec}})
    return wiring._queue  # type: ignore[return-value]


async def test_a_child_wakes_its_resource_by_label_or_by_owner(wiring: Wiring) -> None:
    assert await child(wiring, labels={SERVICE_LABEL: "demo"}) == {("ns", "demo")}
    assert await child(wiring, labels={SERVICE_LABEL: "demo"}, ownerReferences=[OWNER]) == {("ns", "demo")}


async def test_what_several_resources_share_wakes_them_all_and_a_downloads_pod_wakes_nobody(wiring: Wiring) -> None:
    assert await child(wiring, labels={DOWNLOAD_LABEL: "download-x"}) == set()
    owners = [OWNER, {"kind": "InferenceService", "name": "other", "uid": "v"}]
    woken = await child(wiring, labels={SERVICE_LABEL: "demo"}, ownerReferences=owners)
    assert woken == {("ns", "demo"), ("ns", "other")}


async def test_a_child_that_lost_label_and_owner_wakes_the_resource_of_its_name(wiring: Wiring) -> None:
    assert await child(wiring) == {("ns", "it")}


async def test_a_child_with_a_changed_label_still_wakes_its_owner(wiring: Wiring) -> None:
    assert ("ns", "demo") in await child(wiring, labels={SERVICE_LABEL: "other"}, ownerReferences=[OWNER])


async def test_damage_to_a_child_is_urgent_and_news_of_it_is_not(wiring: Wiring) -> None:
    await child(wiring, Weight.NEWS)
    assert wiring._queue.urgent == set()  # type: ignore[attr-defined]
    await child(wiring, Weight.DAMAGE)
    assert wiring._queue.urgent == {("ns", "it")}  # type: ignore[attr-defined]


async def test_a_resource_wakes_itself_and_those_that_want_its_model_name(wiring: Wiring) -> None:
    assert await resource(wiring, "first") == {("ns", "first")}
    assert await resource(wiring, "second") == {("ns", "first"), ("ns", "second")}
    assert await resource(wiring, "third", model="other") == {("ns", "third")}
    assert await resource(wiring, "first", "DELETED") == {("ns", "first"), ("ns", "second")}


async def test_a_status_of_its_own_wakes_nobody(wiring: Wiring) -> None:
    await resource(wiring, "first")
    wiring._cluster._told["ns", "first"] = "7"
    assert await resource(wiring, "first", "MODIFIED") == set()


async def test_an_operator_whose_watches_fail_ends(wiring: Wiring) -> None:
    async def fails() -> None:
        raise RuntimeError("a kind of event that nobody knows")

    task = asyncio.create_task(fails())
    task.add_done_callback(wiring._follows_no_more)
    await asyncio.wait_for(wiring.stop_flag.wait(), 5)
    assert wiring.status == 1
