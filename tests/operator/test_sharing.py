"""The door to what several resources share, against a small API server in memory."""

from __future__ import annotations

from typing import Any

import pytest

from forebay_operator.cluster.paths import child_path
from forebay_operator.downloads import Amend, Make, Remove
from forebay_operator.happenings import Verb
from forebay_operator.refusal import ApiError, ClusterUnavailable, Overlooked, Refused
from tests.operator.builders import cache_of, download, resource
from tests.operator.test_live_cluster import MemoryApi, api_with, live_cluster, observe

CACHED = {"model": {"source": "hf://org/name@1", "cache": {"size": "1Gi"}}}
CLAIM, JOB = cache_of(resource(spec=CACHED))
CLAIMS = child_path(CLAIM).rpartition("/")[0]


async def test_what_is_made_is_created_so_that_nobodys_share_is_overwritten() -> None:
    api = api_with(CACHED)
    cluster = live_cluster(api)
    (made,) = await cluster.share([Make(CLAIM)])
    assert (made.verb, made.kind) == (Verb.MADE, "PersistentVolumeClaim")
    assert api.writes() == [("POST", CLAIMS)]


async def test_another_that_was_faster_is_seen_in_the_next_pass() -> None:
    api = api_with(CACHED)
    api.fails["POST", CLAIMS] = ApiError(409, "AlreadyExists", "exists")
    with pytest.raises(ClusterUnavailable):
        await live_cluster(api).share([Make(CLAIM)])


async def test_what_stands_there_unseen_is_looked_at_before_anything_is_made() -> None:
    api = api_with(CACHED)
    cluster = live_cluster(api)
    theirs = {"metadata": {"name": CLAIM["metadata"]["name"], "namespace": "ns", "uid": "x"}}
    api.objects[child_path(CLAIM)] = theirs
    assert (await observe(cluster)).download.claim is None
    api.writes()
    with pytest.raises(Overlooked):
        await cluster.share([Make(CLAIM)])
    assert api.writes() == []
    found = (await observe(cluster)).download.claim
    assert found
    assert found["metadata"]["uid"] == "x"


class Recording(MemoryApi):
    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Any] = []

    async def request(self, method: str, path: str, body: Any = None, query: Any = None, content: str = "") -> Any:
        self.bodies.append(body)
        return await super().request(method, path, body, query, content)


async def test_an_amendment_is_of_what_was_seen_and_of_nothing_else() -> None:
    api, found = Recording(), download([CLAIM, JOB])
    assert found.job
    owners = [{"uid": "a"}, {"uid": "b"}]
    await live_cluster(api).share([Amend(found.job, {"metadata": {"ownerReferences": owners}})])
    assert api.bodies == [{"metadata": {"ownerReferences": owners, "resourceVersion": "1"}}]


async def test_what_another_resource_has_joined_meanwhile_is_not_removed() -> None:
    api, found = Recording(), download([CLAIM, JOB])
    assert found.claim
    api.objects[child_path(CLAIM)] = found.claim
    await live_cluster(api).share([Remove(found.claim)])
    assert api.bodies[0]["preconditions"] == {"uid": "uid-of-PersistentVolumeClaim", "resourceVersion": "1"}


async def test_what_the_api_server_will_not_change_is_told() -> None:
    api = api_with(CACHED)
    found = download([CLAIM, JOB])
    assert found.claim
    api.fails["PATCH", child_path(CLAIM)] = ApiError(422, "Invalid", "spec is immutable")
    with pytest.raises(Refused, match="spec is immutable"):
        await live_cluster(api).share([Amend(found.claim, {"spec": {"storageClassName": "other"}})])


async def test_what_is_gone_already_is_removed() -> None:
    api = api_with(CACHED)
    found = download([CLAIM, JOB])
    assert found.job
    api.fails["DELETE", child_path(JOB)] = ApiError(404, "NotFound", "gone")
    (change,) = await live_cluster(api).share([Remove(found.job)])
    assert change.verb is Verb.REMOVED


async def test_the_present_cache_is_observed_and_only_where_there_is_one() -> None:
    api = api_with(CACHED)
    cluster = live_cluster(api)
    for manifest in (CLAIM, JOB):
        api.objects[child_path(manifest)] = {**manifest, "metadata": {**manifest["metadata"], "uid": "y"}}
    seen = await observe(cluster)
    assert seen.download.claim
    assert seen.download.job
    plain = api_with()
    plain.objects |= {k: v for k, v in api.objects.items() if "inferenceservices" not in k}
    assert (await observe(live_cluster(plain))).download.job is None


async def test_the_last_word_on_why_a_job_has_no_pod_is_looked_up() -> None:
    api = api_with(CACHED)
    api.objects[child_path(JOB)] = {**JOB, "metadata": {**JOB["metadata"], "uid": "y"}}
    events = "/api/v1/namespaces/ns/events"

    def told(minute: int, words: str, uid: str = "y") -> dict[str, Any]:
        at = f"2026-03-01T12:{minute:02}:00Z"
        return {"message": words, "lastTimestamp": at, "involvedObject": {"uid": uid}}

    api.lists[events] = [told(1, "exceeded quota"), told(2, "another quota"), told(3, "of the Job before", "x")]
    assert (await observe(live_cluster(api))).download.failed_creation == "another quota"
    api.lists[events] = []
    assert (await observe(live_cluster(api))).download.failed_creation == ""
