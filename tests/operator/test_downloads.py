"""A model's cache: who makes it, joins it, lets go of it, and what waits for it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay_operator.api_names import KEPT_ANNOTATION, REVISION_LABEL
from forebay_operator.downloads import Act, Amend, Make, Remove
from forebay_operator.observed import Download, Manifest, Missing, Observed, parse_pod
from forebay_operator.resource import InferenceService
from forebay_operator.sync import Outcome, sync
from tests.operator.builders import (
    COMPLETE,
    CONFIG,
    NOW,
    cache_of,
    desired,
    download,
    live,
    observed,
    pod_body,
    resource,
    says,
)

MODEL: dict[str, Any] = {"source": "hf://org/name@1234"}
WORDS = "forebay-runtime: hf://org/name can't be fetched"


def service(name: str = "demo", source: str = MODEL["source"], **cache: Any) -> InferenceService:
    return resource(name, model={"source": source, "cache": cache or {"size": "20Gi"}})


KEPT, SHORT_LIVED = service(), service(size="20Gi", deleteWhenUnused=True)


def decided(of: InferenceService, found: Download, **seen: Any) -> Outcome:
    return sync(of, Observed(download=found, **seen), CONFIG, NOW)


def kinds(outcome: Outcome) -> set[str]:
    assert outcome.children is not None
    return {c["kind"] for c in outcome.children}


def owners(manifest: Manifest) -> list[str]:
    return [o["name"] for o in manifest["metadata"].get("ownerReferences") or []]


def patched(live: Manifest, patch: Any) -> Manifest:
    """RFC 7396."""
    found = copy.deepcopy(live)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = patched(found.get(key) or {}, value)
        else:
            found[key] = value
    return found


def after(acts: Sequence[Act], found: Download) -> Download:
    """What there is when they are carried out."""
    there: dict[str, Manifest | None] = {"PersistentVolumeClaim": found.claim, "Job": found.job}
    for act in acts:
        match act:
            case Make(manifest):
                there[manifest["kind"]] = live(manifest)
            case Amend(of, patch):
                there[of["kind"]] = patched(of, patch)
            case Remove(of):
                there[of["kind"]] = None
    return Download(there["PersistentVolumeClaim"], there["Job"])


def settled(of: InferenceService, found: Download) -> Download:
    """What there is when the resource has nothing more to do."""
    for _ in range(5):
        outcome = decided(of, found)
        if not outcome.acts:
            return found
        found = after(outcome.acts, found)
    raise AssertionError(f"it never ends: {outcome.acts}")


class TestBeginning:
    def test_first_the_claim_then_the_job_then_the_pods(self) -> None:
        first = decided(KEPT, Download())
        assert [a.what["kind"] for a in first.acts if isinstance(a, Make)] == ["PersistentVolumeClaim"]
        assert first.requeue_after == timedelta(seconds=1)
        second = decided(KEPT, after(first.acts, Download()))
        assert [a.what["kind"] for a in second.acts if isinstance(a, Make)] == ["Job"]
        assert "Deployment" not in kinds(second)
        assert "Service" in kinds(second)
        done = decided(KEPT, download(cache_of(KEPT), **COMPLETE))
        assert done.acts == ()
        assert "Deployment" in kinds(done)

    def test_pods_read_the_folder_of_the_source_and_fetch_nothing(self) -> None:
        made = cache_of(KEPT)
        pod = desired(decided(KEPT, download(made, **COMPLETE)), "Deployment")["spec"]["template"]["spec"]
        assert "initContainers" not in pod
        (volume,) = [v for v in pod["volumes"] if v["name"] == "model"]
        assert volume["persistentVolumeClaim"] == {"claimName": made[0]["metadata"]["name"], "readOnly": True}
        (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "model"]
        assert f"/cache/{mount['subPath']}" in made[1]["spec"]["template"]["spec"]["containers"][0]["args"]

    def test_a_claim_of_the_users_is_neither_made_nor_owned(self) -> None:
        made = cache_of(service(claim="models"))
        assert [m["kind"] for m in made] == ["Job"]
        (volume, _) = made[0]["spec"]["template"]["spec"]["volumes"]
        assert volume["persistentVolumeClaim"] == {"claimName": "models"}

    def test_a_missing_secret_holds_the_job_too(self) -> None:
        of = resource(model={**MODEL, "credentialsSecret": "token", "cache": {"size": "20Gi"}})
        outcome = decided(of, Download(), credentials=Missing())
        assert outcome.acts == ()
        assert says(outcome)["Degraded"] == ("True", "SecretMissing")

    def test_what_is_whole_needs_no_secret_any_more(self) -> None:
        of = resource(model={**MODEL, "credentialsSecret": "token", "cache": {"size": "20Gi"}})
        outcome = decided(of, download(cache_of(of), **COMPLETE), credentials=Missing())
        assert "Deployment" in kinds(outcome)
        assert says(outcome)["Degraded"] == ("False", "NothingWrong")

    @pytest.mark.parametrize("kind", [0, 1], ids=["claim", "job"])
    def test_what_somebody_else_made_is_never_taken_over(self, kind: int) -> None:
        claim, job = made = [live(m) for m in cache_of(KEPT)]
        made[kind]["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Update"}]
        outcome = decided(KEPT, Download(claim, job))
        assert outcome.children is None
        assert outcome.acts == ()
        assert says(outcome)["Accepted"] == ("False", "NameTaken")

    def test_a_job_tolerates_the_nodes_of_the_accelerators_and_holds_none(self) -> None:
        of = resource(model={**MODEL, "cache": {"size": "1Gi"}}, resources={"limits": {"nvidia.com/gpu": "1"}})
        pod = cache_of(of)[1]["spec"]["template"]["spec"]
        assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        held = pod["containers"][0]["resources"]
        assert held["requests"].keys() == held["limits"].keys() == {"cpu", "memory"}


class TestStatus:
    def test_a_download_is_told_and_looked_at_again(self) -> None:
        outcome = decided(KEPT, download(cache_of(KEPT)))
        assert says(outcome)["Ready"] == ("False", "Downloading")
        assert says(outcome)["Progressing"] == ("True", "Downloading")
        assert says(outcome)["Degraded"] == ("False", "NothingWrong")
        assert outcome.requeue_after == timedelta(seconds=5)

    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (f"{WORDS}: 401 who are you?", "DownloadFailed"),
            (f"{WORDS}: no room: its 3 files have 1,000 bytes", "CacheTooSmall"),
            ("forebay-runtime: downloading has stalled: no byte of the model came for 300 s", "DownloadStalled"),
        ],
    )
    def test_what_stands_in_its_way_is_told_in_the_jobs_own_words(self, words: str, reason: str) -> None:
        ended = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        last = {"lastState": {"terminated": {"exitCode": 1, "message": words}}}
        failing = pod_body("download-x", "", container={"name": "fetch", **ended, **last})
        outcome = decided(KEPT, download(cache_of(KEPT), [failing]))
        assert says(outcome)["Degraded"] == ("True", reason)
        (message,) = [c.message for c in outcome.status.conditions if c.type == "Degraded"]
        assert words in message
        assert "pod download-x" in message

    def test_why_the_job_cannot_make_its_pod_is_told_while_it_has_none(self) -> None:
        words = 'pods "download-x-abc" is forbidden: exceeded quota: small'
        outcome = decided(KEPT, replace(download(cache_of(KEPT)), failed_creation=words))
        assert says(outcome)["Degraded"] == ("True", "QuotaExceeded")
        assert outcome.requeue_after == timedelta(seconds=5)
        there = pod_body("download-x-abc", "", ready=True, container={"name": "fetch"})
        again = replace(download(cache_of(KEPT), [there]), failed_creation=words)
        assert says(decided(KEPT, again))["Degraded"][0] == "False"

    def test_one_that_runs_again_is_not_blamed_for_what_it_was(self) -> None:
        last = {"lastState": {"terminated": {"exitCode": 1, "message": WORDS}}}
        again = pod_body("download-x", "", ready=True, container={"name": "fetch", **last})
        assert says(decided(KEPT, download(cache_of(KEPT), [again])))["Degraded"][0] == "False"

    def test_a_pod_that_was_evicted_is_not_blamed_when_another_has_taken_its_place(self) -> None:
        evicted = pod_body("download-x-a", "", container={"name": "fetch"})
        evicted["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
        assert says(decided(KEPT, download(cache_of(KEPT), [evicted])))["Degraded"] == ("True", "Evicted")
        successor = pod_body("download-x-b", "", ready=True, container={"name": "fetch"})
        successor["metadata"]["creationTimestamp"] = "2026-03-01T11:59:30Z"
        assert says(decided(KEPT, download(cache_of(KEPT), [evicted, successor])))["Degraded"][0] == "False"


class TestChange:
    def test_the_pods_of_the_former_source_serve_on_until_the_next_is_whole(self) -> None:
        before = resource(replicas=2)
        there = observed(before, [pod_body("old", "r", ready=True)])
        was = there.children["Deployment"]["spec"]["template"]
        now = resource(replicas=3, model={**MODEL, "cache": {"size": "20Gi"}})
        waits = sync(now, replace(there, download=download(cache_of(now))), CONFIG, NOW)
        assert desired(waits, "Deployment")["spec"]["template"] == was
        assert desired(waits, "Deployment")["spec"]["replicas"] == 3
        rolls = sync(now, replace(there, download=download(cache_of(now), **COMPLETE)), CONFIG, NOW)
        assert desired(rolls, "Deployment")["spec"]["template"] != was

    def test_pods_that_serve_are_not_taken_away_when_the_job_is(self) -> None:
        done = decided(KEPT, download(cache_of(KEPT), **COMPLETE))
        there = {"Deployment": live(desired(done, "Deployment"))}
        again = decided(KEPT, download(cache_of(KEPT)[:1]), children=there)
        assert "Deployment" in kinds(again)
        assert [type(a) for a in again.acts] == [Make], "the next Job finds all there"

    def test_a_job_is_made_anew_when_its_claim_is_another(self) -> None:
        found = download(cache_of(KEPT), **COMPLETE)
        assert found.claim
        assert found.job
        assert found.whole
        another = replace(found, claim=patched(found.claim, {"metadata": {"uid": "another"}}))
        assert not another.whole
        outcome = decided(KEPT, another)
        assert outcome.acts == (Remove(found.job),)
        assert outcome.requeue_after == timedelta(seconds=1)

    def test_a_job_that_is_not_done_follows_its_maker_and_one_that_is_stays(self) -> None:
        edited = resource(model={**MODEL, "cache": {"size": "20Gi"}}, engine={"env": [{"name": "A", "value": "b"}]})
        found = download(cache_of(KEPT))
        assert found.job
        assert decided(edited, found).acts == (Remove(found.job),)
        assert decided(edited, download(cache_of(KEPT), **COMPLETE)).acts == ()
        other = resource("other", model={**MODEL, "cache": {"size": "20Gi"}}, engine=edited.spec.engine.model_dump())  # type: ignore[union-attr]
        assert [type(a) for a in decided(other, found).acts] == [Amend], "it joins, and changes nothing"

    def test_what_goes_is_awaited(self) -> None:
        for goes in (0, 1):
            claim, job = made = [live(m) for m in cache_of(KEPT)]
            made[goes]["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:30Z"
            outcome = decided(KEPT, Download(claim, job))
            assert outcome.acts == ()
            assert outcome.requeue_after == timedelta(seconds=1)

    def test_a_claim_grows_and_never_shrinks(self) -> None:
        found = download(cache_of(KEPT), **COMPLETE)
        (grows,) = decided(service(size="30Gi"), found).acts
        assert isinstance(grows, Amend)
        assert grows.patch["spec"] == {"resources": {"requests": {"storage": "30Gi"}}}
        assert decided(service(size="10Gi"), found).acts == ()


class TestSharing:
    def test_a_second_resource_of_the_source_joins_and_downloads_nothing(self) -> None:
        first = settled(SHORT_LIVED, Download())
        second = settled(service("other", size="20Gi", deleteWhenUnused=True), first)
        for before, now in ((first.claim, second.claim), (first.job, second.job)):
            assert before
            assert now
            assert owners(now) == ["demo", "other"]
            assert now["spec"] == before["spec"]

    def test_a_claim_that_another_lets_grow_is_filled_further(self) -> None:
        found = settled(service("other", size="30Gi"), settled(service(size="20Gi"), Download()))
        assert found.job
        again = settled(service(size="20Gi"), found)
        assert again.job
        sizes = [j["spec"]["template"]["spec"]["containers"][0]["args"][-1] for j in (found.job, again.job)]
        assert sizes == [f"--most={20 << 30}", f"--most={30 << 30}"]

    def test_what_cannot_grow_is_joined_all_the_same(self) -> None:
        large = service("other", size="30Gi", deleteWhenUnused=True)
        first = decided(large, settled(SHORT_LIVED, Download()))
        assert ["spec" in a.patch for a in first.acts if isinstance(a, Amend)] == [False, False]
        assert first.requeue_after == timedelta(seconds=1)
        (grows,) = decided(large, after(first.acts, settled(SHORT_LIVED, Download()))).acts
        assert isinstance(grows, Amend)
        assert grows.patch == {"spec": {"resources": {"requests": {"storage": "30Gi"}}}}

    def test_other_sources_and_revisions_share_nothing(self) -> None:
        names = {
            m["metadata"]["name"] for s in ("a@1", "a@2", "b@1") for m in cache_of(service(source=f"hf://org/{s}"))
        }
        assert len(names) == 6

    def test_a_claim_stays_while_one_wants_it_to(self) -> None:
        both = settled(service("other", size="20Gi", deleteWhenUnused=True), settled(KEPT, Download()))
        assert both.claim
        assert both.job
        assert owners(both.claim) == []
        assert owners(both.job) == ["demo", "other"]
        let_go = settled(SHORT_LIVED, both)
        assert let_go.claim
        assert owners(let_go.claim) == ["demo", "other"]
        assert KEPT_ANNOTATION not in let_go.claim["metadata"]["annotations"]

    def test_a_claim_that_is_kept_no_more_is_at_once_of_all_that_use_it(self) -> None:
        found = settled(KEPT, Download())
        for name, deletes in (("other", True), ("third", False)):
            found = settled(service(name, size="20Gi", deleteWhenUnused=deletes), found)
        let_go = settled(SHORT_LIVED, found)
        assert let_go.claim
        assert owners(let_go.claim) == ["demo", "other", "third"], "none is left without it if demo goes now"

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=8))
    def test_in_whatever_order_they_come_nobody_is_left_out_and_they_come_to_rest(
        self, steps: list[tuple[str, bool]]
    ) -> None:
        wishes: dict[str, bool] = {}
        found = Download()
        for name, deletes in steps:
            wishes[name] = deletes
            found = settled(service(name, size="20Gi", deleteWhenUnused=deletes), found)
        for _ in range(2):
            for name, deletes in wishes.items():
                found = settled(service(name, size="20Gi", deleteWhenUnused=deletes), found)
        assert found.claim
        assert found.job
        assert set(owners(found.job)) == wishes.keys()
        kept = not all(wishes.values())
        assert set(owners(found.claim)) == (set() if kept else wishes.keys())


class TestLettingGo:
    def serving(self, of: InferenceService, pod_revision: str | None = None) -> Observed:
        seen = observed(of)
        revision = seen.children["Deployment"]["spec"]["template"]["metadata"]["labels"][REVISION_LABEL]
        return replace(seen, pods=(parse_pod(pod_body("p", pod_revision or revision, ready=True)),))

    def test_the_former_cache_is_let_go_of_when_no_pod_is_left_that_reads_it(self) -> None:
        shares = tuple(live(m) for m in cache_of(SHORT_LIVED))
        rolling = replace(self.serving(resource(), "former"), shares=shares)
        assert sync(resource(), rolling, CONFIG, NOW).acts == ()
        settled = replace(self.serving(resource()), shares=shares)
        assert sync(resource(), settled, CONFIG, NOW).acts == tuple(Remove(m) for m in shares)

    def test_what_others_use_stays(self) -> None:
        both = settled(service("other", size="20Gi", deleteWhenUnused=True), settled(SHORT_LIVED, Download()))
        assert both.claim
        shares = replace(self.serving(resource()), shares=(both.claim,))
        (act,) = sync(resource(), shares, CONFIG, NOW).acts
        assert isinstance(act, Amend)
        assert owners(patched(act.what, act.patch)) == ["other"]

    def test_what_is_in_use_is_kept(self) -> None:
        found = download(cache_of(SHORT_LIVED), **COMPLETE)
        assert found.claim
        assert found.job
        done = decided(SHORT_LIVED, found)
        there = {"Deployment": live(desired(done, "Deployment"))}
        assert decided(SHORT_LIVED, found, children=there, shares=(found.claim, found.job)).acts == ()
