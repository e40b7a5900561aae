"""`spec.model.cache`: a model is downloaded once, told of while it comes, and served from the claim that holds it."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.gateway import NAMESPACE
from e2e.kube import Kube, Object, path_of
from e2e.load import Request
from e2e.story import ISVC, Served, Story, Wanted
from e2e.test_hub import REPOSITORY, TOKEN, start_hub
from e2e.volumes import claimed, on_the_volume, volume

ON_THE_NODE = "/var/tmp/forebay-cache"
JOBS, CLAIMS = "batch/v1/jobs", "v1/persistentvolumeclaims"
RATE = 8_000_000  # bytes a second: a model of 98 MB takes a dozen
EMPTY = "import shutil, pathlib; [shutil.rmtree(p) for p in pathlib.Path('/data').iterdir()]"
NO_BYTE = "import pathlib, sys; sys.exit(any(p.is_file() for p in pathlib.Path('/data').rglob('*')))"


@pytest.fixture
def storage(cluster: Kube, story: Story) -> Iterator[str]:
    """A storage class with one volume, in which everybody may write, for the claim that the operator asks for."""
    first = claimed(cluster, story, "folder", ON_THE_NODE)
    on_the_volume(story, "folder", "open", f"import os; os.chmod('/data', 0o777); {EMPTY}")
    cluster.apply("", volume(cluster, story.namespace, ON_THE_NODE, storageClassName=story.namespace))
    yield story.namespace
    cluster.must("delete", "isvc", "--all", "-n", story.namespace, "--timeout=30s")
    on_the_volume(story, "folder", "empty", EMPTY)
    cluster.must("delete", "pv", first, story.namespace, "--wait=false")


def token() -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub-token"}, "stringData": {"token": TOKEN}}


def cached(story: Story, name: str, address: str, **cache: Any) -> Wanted:
    story.kube.apply(story.namespace, token())
    return Wanted(name).with_(
        model={"source": f"hf://{REPOSITORY}@main", "credentialsSecret": "hub-token", "cache": cache},
        engine__env=[{"name": "HF_ENDPOINT", "value": address}],
    )


def downloads(story: Story, served: Served) -> Object:
    """What the status tells of a download, as soon as it does."""

    def look() -> Object | None:
        told: Object = served.now().get("status", {}).get("loading") or {}
        return told if told.get("phase") == "Downloading" and told["bytes"] else None

    return story.kube.until(look, path_of(ISVC, story.namespace), 90, f"a download is told: {served.says()}")


def shared(story: Story, kind: str) -> list[Object]:
    """What the operator made there for all."""
    return story.kube.items(path_of(kind, story.namespace), "app.kubernetes.io/managed-by=forebay-operator")


def test_a_model_is_downloaded_once_for_all_and_goes_with_the_last_of_them(story: Story, storage: str) -> None:
    address = start_hub(story, RATE)
    cache = {"size": "1Gi", "storageClass": storage, "deleteWhenUnused": True}
    first = story.apply(cached(story, "first", address, **cache))
    told = downloads(story, first)
    assert told["bytes"] < told["total"]
    assert told["pod"].startswith("download-")
    assert not first.pods(), "no pod starts before the model is whole"
    assert first.condition("Progressing")["reason"] == "Downloading"
    first.becomes_ready()

    second = story.apply(cached(story, "second", address, **cache))
    second.becomes_ready()
    (job,), (claim,) = shared(story, JOBS), shared(story, CLAIMS)
    assert job["status"]["succeeded"] == 1
    assert [o["name"] for o in claim["metadata"]["ownerReferences"]] == ["first", "second"]
    with first.under_load(Request(tokens=8)) as load:
        load.goes_on(1)

    story.kube.must("delete", "isvc", "first", "-n", story.namespace, "--timeout=30s")
    assert shared(story, CLAIMS), "the other one uses it"
    story.kube.must("delete", "isvc", "second", "-n", story.namespace, "--timeout=30s")
    gone = lambda: not shared(story, CLAIMS) and not shared(story, JOBS)  # noqa: E731
    story.kube.until(gone, path_of(CLAIMS, story.namespace), 60, "claim and Job go with the last")


def test_the_former_model_is_served_while_the_next_one_comes_and_the_operator_dies(story: Story, storage: str) -> None:
    address = start_hub(story, RATE)
    served = story.apply(Wanted("moves"))
    served.becomes_ready()
    old = served.pod_names()
    story.kube.apply(story.namespace, token())
    model = {
        "source": f"hf://{REPOSITORY}@main",
        "credentialsSecret": "hub-token",
        "cache": {"size": "1Gi", "storageClass": storage},
    }
    with served.under_load(Request(tokens=8)) as load:
        served.edit(model=model, engine__env=[{"name": "HF_ENDPOINT", "value": address}])
        downloads(story, served)
        assert served.pod_names() == old
        (job,) = shared(story, JOBS)
        selector = "app.kubernetes.io/component=operator,app.kubernetes.io/name=forebay"
        story.kube.must("delete", "pod", "-n", NAMESPACE, "-l", selector, "--grace-period=0", "--force")
        served.becomes_ready()
        load.goes_on(2)
    assert not served.pod_names() & old
    assert [j["metadata"]["uid"] for j in shared(story, JOBS)] == [job["metadata"]["uid"]]
    story.kube.must("rollout", "status", "-n", NAMESPACE, "deployment/forebay-operator", "--timeout=60s", timeout=70)


def test_what_has_no_room_is_refused_with_the_arithmetic_and_no_byte_is_written(story: Story, storage: str) -> None:
    address = start_hub(story)
    served = story.apply(cached(story, "large", address, size="64Mi", storageClass=storage))
    said = served.comes_to_say("CacheTooSmall", seconds=90)
    assert "and the volume is to hold 67,108,864: " in said
    assert not served.pods()
    story.kube.must("delete", "isvc", "large", "-n", story.namespace, "--timeout=30s")
    (claim,) = shared(story, CLAIMS)
    on_the_volume(story, claim["metadata"]["name"], "look", NO_BYTE)
