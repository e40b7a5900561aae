"""Decisions beside the children's text: what is held back, refused, asked for again, and who goes first."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from forebay_operator.config import Config
from forebay_operator.observed import Known, Manifest, Missing, Observed, Unreadable, parse_workload
from forebay_operator.sync import Outcome, sync
from tests.operator.builders import (
    CONFIG,
    NOW,
    SOURCE,
    desired,
    live,
    observed,
    resource,
    revision,
    says,
    wanted,
)

WITH_SECRET = resource(model={"source": SOURCE, "credentialsSecret": "token"})
BINDING = Config("image", "operator", service_account="forebay-system/forebay-operator", credentials_role="reader")


def kinds(outcome: Outcome) -> set[str]:
    assert outcome.children is not None
    return {c["kind"] for c in outcome.children}


def carried(outcome: Outcome) -> str:
    return parse_workload(desired(outcome, "Deployment")).credentials


def test_an_autoscaler_is_there_only_when_it_is_asked_for() -> None:
    assert "HorizontalPodAutoscaler" not in kinds(wanted(resource()))
    assert "HorizontalPodAutoscaler" in kinds(
        wanted(resource(scaling={"maxReplicas": 2, "targets": {"queueDepth": 1}}))
    )


def test_the_operator_carries_the_replicas_that_the_spec_has() -> None:
    assert desired(wanted(resource(replicas=5)), "Deployment")["spec"]["replicas"] == 5


class TestRevision:
    def test_it_changes_with_what_makes_the_pods(self) -> None:
        base = revision(resource())
        assert revision(resource(engine={"args": ["--max-num-seqs=4"]})) != base
        assert revision(resource(resources={"requests": {"cpu": "1"}})) != base
        assert revision(resource(), Config("another/image:2", "registry/operator:1")) != base

    def test_it_does_not_change_with_replicas_or_scaling(self) -> None:
        base = revision(resource())
        assert revision(resource(replicas=4)) == base
        assert revision(resource(scaling={"maxReplicas": 2, "targets": {"queueDepth": 1}})) == base


class TestCredentials:
    def test_other_contents_make_other_pods(self) -> None:
        first, second = (sync(WITH_SECRET, Observed(credentials=Known(d)), CONFIG, NOW) for d in ("one", "two"))
        assert first.status.revision != second.status.revision

    def test_the_first_pods_wait_for_a_missing_secret(self) -> None:
        outcome = sync(WITH_SECRET, Observed(credentials=Missing()), CONFIG, NOW)
        assert "Deployment" not in kinds(outcome)
        assert "Service" in kinds(outcome)
        assert says(outcome)["Ready"] == ("False", "SecretMissing")
        assert outcome.requeue_after is not None

    @pytest.mark.parametrize("lost", [Missing(), Unreadable()])
    def test_a_secret_that_is_lost_later_rolls_nothing(self, lost: Missing | Unreadable) -> None:
        before = sync(WITH_SECRET, Observed(credentials=Known("one")), CONFIG, NOW)
        there = Observed(children={"Deployment": live(desired(before, "Deployment"))}, credentials=lost)
        after = sync(WITH_SECRET, there, CONFIG, NOW)
        assert carried(after) == "one"
        assert after.status.revision == before.status.revision

    def test_the_first_pods_wait_a_moment_for_the_right_to_read(self) -> None:
        young = Observed(credentials=Unreadable())
        early, late = (sync(WITH_SECRET, young, BINDING, NOW + timedelta(seconds=s)) for s in (-58, 30))
        assert "Deployment" not in kinds(early)
        assert early.requeue_after is not None
        assert early.requeue_after < timedelta(seconds=1)
        assert "Deployment" in kinds(late)

    def test_the_operator_gives_itself_the_right_only_where_a_secret_is_named(self) -> None:
        assert "RoleBinding" in kinds(wanted(WITH_SECRET, BINDING))
        assert "RoleBinding" not in kinds(wanted(resource(), BINDING))
        assert "RoleBinding" not in kinds(wanted(WITH_SECRET, CONFIG))


class TestRefusal:
    def test_what_is_there_stays_when_a_model_name_is_taken(self) -> None:
        outcome = sync(resource(), replace(observed(resource()), rival="ns/first"), CONFIG, NOW)
        assert outcome.children is None
        (message,) = [c.message for c in outcome.status.conditions if c.type == "Accepted"]
        assert "ns/first" in message
        assert '"demo"' in message

    def test_somebody_elses_child_is_never_taken_over(self) -> None:
        theirs = live(desired(wanted(resource()), "Service"))
        theirs["metadata"]["ownerReferences"] = []
        theirs["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply"}]
        outcome = sync(resource(), Observed(children={"Service": theirs}), CONFIG, NOW)
        assert outcome.children is None
        assert says(outcome)["Accepted"] == ("False", "NameTaken")
        assert outcome.requeue_after is not None, "its end wakes nobody"


class TestFormerChildren:
    def test_an_own_child_without_its_owner_is_taken_back(self) -> None:
        mine = live(desired(wanted(resource()), "Service"))
        mine["metadata"]["ownerReferences"] = []
        assert "Service" in kinds(sync(resource(), Observed(children={"Service": mine}), CONFIG, NOW))

    def former(self, **meta: Any) -> Manifest:
        child = live(desired(wanted(resource()), "Service"))
        child["metadata"] |= meta
        return child

    def test_children_of_a_former_resource_of_that_name_are_awaited(self) -> None:
        owners = [{"kind": "InferenceService", "name": "demo", "uid": "another", "controller": True}]
        seen = Observed(children={"Service": self.former(ownerReferences=owners)})
        outcome = sync(resource(), seen, CONFIG, NOW)
        assert "Service" not in kinds(outcome)
        assert outcome.requeue_after == timedelta(seconds=1)

    def test_a_child_that_is_being_deleted_is_awaited(self) -> None:
        seen = Observed(children={"Service": self.former(deletionTimestamp="2026-03-01T11:59:30Z")})
        assert "Service" not in kinds(sync(resource(), seen, CONFIG, NOW))
