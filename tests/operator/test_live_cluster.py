"""The door to Kubernetes against a small API server in memory that knows server-side apply's outlines."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from forebay_operator.api_names import FIELD_OWNER, MANAGED_LABEL
from forebay_operator.child_kinds import ALL_KINDS, CHILD_KINDS
from forebay_operator.cluster import LiveCluster
from forebay_operator.cluster.api import APPLY, as_yaml
from forebay_operator.cluster.paths import child_path, resource_path
from forebay_operator.happenings import Happening, Verb
from forebay_operator.observed import Known, Manifest, Missing, Observed, Pod, Unreadable, parse_pod
from forebay_operator.refusal import ApiError, ClusterUnavailable, NamespaceEnding, Overlooked, Refused
from tests.operator.builders import SOURCE, desired, pod_body, resource, wanted

KEY = ("ns", "demo")
OURS = {"manager": FIELD_OWNER, "operation": "Apply"}
WRITES = ("PATCH", "PUT", "DELETE", "POST")


class MemoryApi:
    """Objects by path. `fails`: (method, path's end) -> the error that it answers."""

    def __init__(self) -> None:
        self.objects: dict[str, Manifest] = {}
        self.lists: dict[str, list[Manifest]] = {}
        self.fails: dict[tuple[str, str], ApiError] = {}
        self.sent: list[tuple[str, str]] = []
        self.version = itertools.count(1)

    async def close(self) -> None: ...

    async def get(self, path: str, **query: str) -> Manifest:
        return await self.request("GET", path)

    async def find(self, path: str, **query: str) -> Manifest | None:
        try:
            return await self.request("GET", path, query=query)
        except ApiError as e:
            if e.code == 404:
                return None
            raise

    async def patch(self, path: str, body: Any, kind: str, **query: str) -> Manifest:
        return await self.request("PATCH", path, body, query, kind)

    async def request(
        self, method: str, path: str, body: Any = None, query: Any = None, content: str = ""
    ) -> dict[str, Any]:
        self.sent.append((method, path))
        for (verb, end), error in self.fails.items():
            if verb == method and path.endswith(end):
                raise error
        if method == "GET" and path not in self.objects:
            return self._listed(path)
        if method == "DELETE":
            return self.objects.pop(path)
        if method == "GET":
            return copy.deepcopy(self.objects[path])
        return self._written(path, body, content)

    def _listed(self, path: str) -> Manifest:
        if path.endswith(("events", "inferenceservices")):
            return {"items": self.lists.get(path, [])}
        raise ApiError(404, "NotFound", path)

    def _written(self, path: str, body: Any, content: str) -> Manifest:
        held = self.objects.get(path, {"metadata": {"uid": f"uid-{next(self.version)}"}})
        before = copy.deepcopy(held)
        if isinstance(body, list):
            held["metadata"]["managedFields"] = body[-1]["value"]
        else:
            meta = {**held["metadata"], **body.get("metadata", {})}
            held = {**held, **copy.deepcopy(body), "metadata": meta}
        held["metadata"].setdefault("generation", 1)
        if content == APPLY:
            entries = held["metadata"].get("managedFields", [])
            held["metadata"]["managedFields"] = entries if OURS in entries else [*entries, OURS]
        if held != before:
            held["metadata"]["resourceVersion"] = str(next(self.version))
        self.objects[path] = held
        return copy.deepcopy(held)

    def writes(self) -> list[tuple[str, str]]:
        found = [(m, p) for m, p in self.sent if m in WRITES]
        self.sent.clear()
        return found


class Mirror:
    """A cache that is never behind: of the API server's objects those that have the operator's label."""

    kinds = tuple(CHILD_KINDS.values())

    def __init__(self, api: MemoryApi) -> None:
        self._api = api
        self.seen: tuple[Pod, ...] = ()

    def child(self, kind: str, namespace: str, name: str) -> Manifest | None:
        live = self._api.objects.get(ALL_KINDS[kind].path(namespace, name))
        if live is None or MANAGED_LABEL not in (live["metadata"].get("labels") or {}):
            return None
        listed = {k: v for k, v in copy.deepcopy(live).items() if k != "apiVersion"}  # as a list has it
        return {**listed, "kind": kind}

    absent: frozenset[str] = frozenset()

    def pods(self, key: tuple[str, str]) -> tuple[Pod, ...]:
        return self.seen

    def shares(self, namespace: str, uid: str) -> tuple[Manifest, ...]:
        return ()

    def download_pods(self, namespace: str, job: str) -> tuple[Pod, ...]:
        return ()

    def failed_creation(self, key: tuple[str, str]) -> dict[str, str]:
        return {}

    def wrote(self, manifest: Manifest) -> None: ...

    def removed(self, manifest: Manifest) -> None: ...


def live_cluster(api: MemoryApi) -> LiveCluster:
    return LiveCluster(api, Mirror(api))  # type: ignore[arg-type]


def api_with(spec: dict[str, Any] | None = None, **meta: Any) -> MemoryApi:
    api = MemoryApi()
    base = {"name": "demo", "namespace": "ns", "uid": "uid-of-demo", "generation": 1}
    created = {"creationTimestamp": "2026-03-01T11:59:00Z"}
    api.objects[resource_path(KEY)] = {
        "metadata": {**base, **created, **meta},
        "spec": spec or {"model": {"source": SOURCE}},
    }
    return api


async def observe(cluster: LiveCluster) -> Observed:
    seen = await cluster.observe(KEY)
    assert seen is not None
    return seen[1]


SERVICE = desired(wanted(resource()), "Service")


async def test_what_was_applied_is_not_applied_again() -> None:
    api = api_with()
    cluster = live_cluster(api)
    (made,) = await cluster.apply([SERVICE], await observe(cluster))
    assert made.verb is Verb.MADE
    api.writes()
    assert await cluster.apply([SERVICE], await observe(cluster)) == []
    assert api.writes() == []


async def test_after_a_restart_an_unchanged_child_is_applied_once_and_told_to_nobody() -> None:
    api = api_with()
    first = live_cluster(api)
    await first.apply([SERVICE], await observe(first))
    second = live_cluster(api)
    for writes in (1, 0):
        api.writes()
        assert await second.apply([SERVICE], await observe(second)) == []
        assert len(api.writes()) == writes


async def test_a_change_by_another_is_put_back() -> None:
    api = api_with()
    cluster = live_cluster(api)
    await cluster.apply([SERVICE], await observe(cluster))
    api.objects[child_path(SERVICE)]["spec"]["type"] = "NodePort"
    (change,) = await cluster.apply([SERVICE], await observe(cluster))
    assert change.verb is Verb.PUT_BACK
    assert api.objects[child_path(SERVICE)]["spec"] == SERVICE["spec"]


async def test_a_displaced_port_is_replaced_and_owned_by_apply_alone() -> None:
    api = api_with()
    cluster = live_cluster(api)
    await cluster.apply([SERVICE], await observe(cluster))
    there = api.objects[child_path(SERVICE)]
    there["spec"]["ports"][0]["port"] = 81
    there["metadata"]["managedFields"].append({"manager": FIELD_OWNER, "operation": "Update"})
    await cluster.apply([SERVICE], await observe(cluster))
    assert api.objects[child_path(SERVICE)]["spec"]["ports"] == SERVICE["spec"]["ports"]
    assert api.objects[child_path(SERVICE)]["metadata"]["managedFields"] == [OURS]


async def test_only_own_children_of_unwanted_kinds_are_removed() -> None:
    api = api_with()
    cluster = live_cluster(api)
    hpa = desired(wanted(resource(scaling={"maxReplicas": 2, "targets": {"queueDepth": 1}})), "HorizontalPodAutoscaler")
    await cluster.apply([SERVICE, hpa], await observe(cluster))
    pdb = desired(wanted(resource()), "PodDisruptionBudget")
    theirs = {**pdb, "metadata": {**pdb["metadata"], "uid": "x", "ownerReferences": []}}
    api.objects[child_path(theirs)] = theirs
    changes = await cluster.prune(resource(), await observe(cluster), [SERVICE])
    assert [(c.verb, c.kind) for c in changes] == [(Verb.REMOVED, "HorizontalPodAutoscaler")]
    assert child_path(theirs) in api.objects


async def test_what_stands_unseen_in_the_place_of_a_child_is_looked_at_before_anything_is_written() -> None:
    api = api_with()
    cluster = live_cluster(api)
    theirs = {"metadata": {"name": "demo", "namespace": "ns", "uid": "x", "labels": {"a": "b"}}}
    api.objects[child_path(SERVICE)] = theirs
    first = await observe(cluster)
    assert "Service" not in first.children, "the watches show nothing of others"
    deployment = desired(wanted(resource()), "Deployment")
    api.writes()
    with pytest.raises(Overlooked):
        await cluster.apply([deployment, SERVICE], first)
    assert api.writes() == []
    assert (await observe(cluster)).children["Service"]["metadata"]["uid"] == "x"
    del api.objects[child_path(SERVICE)]
    assert "Service" not in (await observe(cluster)).children


async def test_an_own_status_is_known_again_but_not_with_another_generation() -> None:
    api = api_with()
    cluster = live_cluster(api)
    path = resource_path(KEY)
    api.objects[path + "/status"] = api.objects[path]
    await cluster.write_status(resource(), wanted(resource()).status)
    version = api.objects[path + "/status"]["metadata"]["resourceVersion"]
    assert cluster.is_own_status(KEY, version)
    assert not cluster.is_own_status(KEY, "another")
    other = live_cluster(api)
    await other.write_status(resource(generation=7), wanted(resource()).status)
    assert not other.is_own_status(KEY, api.objects[path + "/status"]["metadata"]["resourceVersion"])


async def test_a_resource_that_is_gone_is_seen_as_none() -> None:
    assert await live_cluster(MemoryApi()).observe(KEY) is None


@pytest.mark.parametrize("present", [True, False])
async def test_a_named_secret_is_looked_at(present: bool) -> None:
    api = api_with({"model": {"source": SOURCE, "credentialsSecret": "token"}})
    cluster = live_cluster(api)
    path = "/api/v1/namespaces/ns/secrets/token"
    if present:
        api.objects[path] = {"metadata": {"uid": "u", "labels": {"a": "b"}}, "data": {"token": "Zmlyc3Q="}}
    first = (await observe(cluster)).credentials
    assert isinstance(first, Known if present else Missing)
    if present:
        api.objects[path]["metadata"]["labels"] = {"a": "c"}
        assert (await observe(cluster)).credentials == first, "labels are not its contents"
        api.objects[path]["data"] = {"token": "c2Vjb25k"}
        assert (await observe(cluster)).credentials != first


async def test_a_secret_that_may_not_be_read_is_unknown() -> None:
    api = api_with({"model": {"source": SOURCE, "credentialsSecret": "token"}})
    api.fails["GET", "secrets/token"] = ApiError(403, "Forbidden", "no")
    assert isinstance((await observe(live_cluster(api))).credentials, Unreadable)


async def test_a_rival_is_looked_at_before_it_is_believed() -> None:
    api = api_with({"model": {"source": SOURCE, "servedName": "old"}})
    cluster = live_cluster(api)
    cluster.names.heard(resource("old", created="2026-01-01T00:00:00Z"))
    assert (await observe(cluster)).rival is None, "the index remembers one that is gone"
    old = {
        **api.objects[resource_path(KEY)],
        "metadata": {**api.objects[resource_path(KEY)]["metadata"], "name": "old"},
    }
    api.objects[resource_path(("ns", "old"))] = old
    cluster.names.heard(resource("old", created="2026-01-01T00:00:00Z"))
    assert (await observe(cluster)).rival == "ns/old"


async def test_an_equal_status_is_not_written() -> None:
    api = api_with()
    cluster = live_cluster(api)
    status = wanted(resource()).status
    await cluster.write_status(resource(), status)
    assert len(api.writes()) == 1
    await cluster.write_status(resource(status=status), status)
    assert api.writes() == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ApiError(422, "Invalid", "spec.template: wrong"), Refused),
        (ApiError(403, "Forbidden", "exceeded quota: services"), Refused),
        (ApiError(500, "InternalError", "etcd"), ClusterUnavailable),
        (ApiError(403, "Forbidden", "unable to create new content because it is being terminated"), NamespaceEnding),
    ],
)
async def test_whose_fault_a_failed_write_is(error: ApiError, expected: type[Exception]) -> None:
    api = api_with()
    api.fails["PATCH", "services/demo"] = error
    cluster = live_cluster(api)
    with pytest.raises(expected, match="Service demo"):
        await cluster.apply([SERVICE], Observed())


async def test_one_refused_child_does_not_keep_the_others_away() -> None:
    api = api_with()
    api.fails["PATCH", "services/demo"] = ApiError(422, "Invalid", "no")
    cluster = live_cluster(api)
    deployment = desired(wanted(resource()), "Deployment")
    with pytest.raises(Refused):
        await cluster.apply([SERVICE, deployment], Observed())
    assert child_path(deployment) in api.objects


async def test_the_kubelets_word_on_why_an_engine_ended_is_looked_up() -> None:
    api = api_with()
    mirror = Mirror(api)
    end = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": "2026-03-01T12:00:45Z"}}
    mirror.seen = (parse_pod(pod_body("p", "r", container={"lastState": end})),)
    words = "Container runtime failed liveness probe, will be restarted"
    events = "/api/v1/namespaces/ns/events"
    api.lists[events] = [{"message": words, "lastTimestamp": "2026-03-01T12:00:40Z"}]
    cluster = LiveCluster(api, mirror)  # type: ignore[arg-type]
    assert (await observe(cluster)).stalled == {"p"}
    api.lists[events] = []
    assert (await observe(cluster)).stalled == frozenset()


async def test_an_event_that_cannot_be_written_is_no_failure() -> None:
    api = api_with()
    api.fails["POST", "events"] = ApiError(403, "Forbidden", "no")
    await live_cluster(api).record(resource(), [Happening("Ready", "it serves")])


def test_any_text_is_sent_in_a_form_that_yaml_takes() -> None:
    text = as_yaml({"a": "模型 🌊 \x7f\x85\ufeff"})
    assert text == '{"a": "模型 🌊 \\u007f\\u0085\\ufeff"}'
