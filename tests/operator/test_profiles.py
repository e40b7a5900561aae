"""Named profiles and GPUs: what they come to in the pods, and what is refused."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from forebay_operator.config import Config
from forebay_operator.observed import Manifest, Observed
from forebay_operator.profiles import ProfilesError, applied, parse, read
from forebay_operator.resource import Spec
from forebay_operator.sync import sync
from tests.operator.builders import NOW, desired, resource, revision, says

TEXT = """
h100:
  gpu: {count: 2, product: NVIDIA-H100}
  requests: {cpu: 8, memory: 64Gi}
  limits: {memory: 64Gi}
  nodeSelector: {pool: big}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  priorityClassName: serving
  runtimeClassName: nvidia
small:
  requests: {cpu: 1}
"""
CONFIG = Config("registry/runtime:1", "registry/operator:1", profiles=parse(TEXT))


def pod(**parts: Any) -> Manifest:
    outcome = sync(resource(**parts), Observed(), CONFIG, NOW)
    found: Manifest = desired(outcome, "Deployment")["spec"]["template"]["spec"]
    return found


def test_a_profile_fills_what_the_resource_does_not_say() -> None:
    made = pod(resources={"profile": "h100", "requests": {"memory": "32Gi"}}, podTemplate={"runtimeClassName": "mine"})
    resources = made["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"}
    assert resources["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "2"}
    assert made["nodeSelector"] == {"pool": "big", "nvidia.com/gpu.product": "NVIDIA-H100"}
    assert made["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert (made["priorityClassName"], made["runtimeClassName"]) == ("serving", "mine")
    assert "--device=cuda" in made["containers"][0]["args"]


def test_a_mig_profile_is_a_resource_of_its_own() -> None:
    made = pod(resources={"gpu": {"mig": "1g.10gb"}})
    assert made["containers"][0]["resources"]["limits"] == {"nvidia.com/mig-1g.10gb": "1"}
    assert "--device=cuda" in made["containers"][0]["args"]


def test_without_profile_and_gpu_nothing_changes() -> None:
    of = resource()
    assert isinstance(of.spec, Spec)
    assert applied(of.spec, {}) == of.spec


def test_a_profile_that_there_is_not_is_named_with_those_that_there_are() -> None:
    outcome = sync(resource(resources={"profile": "a100"}), Observed(), CONFIG, NOW)
    assert outcome.children is None
    assert says(outcome)["Accepted"] == ("False", "NoSuchProfile")
    (message,) = [c.message for c in outcome.status.conditions if c.type == "Accepted"]
    assert "'a100'" in message
    assert "h100, small" in message


def test_another_profile_is_another_revision() -> None:
    of = resource(resources={"profile": "small"})
    assert revision(of, CONFIG) != revision(
        of, Config("registry/runtime:1", "registry/operator:1", profiles=parse("small: {}"))
    )


@pytest.mark.parametrize("text", ["h100: {gpus: 1}", "h100: {gpu: {count: 0}}", "[1]", "a: {requests: {cpu: [1]}}"])
def test_profiles_that_are_not_understood_stop_the_operator_with_their_names(text: str) -> None:
    with pytest.raises(ProfilesError):
        parse(text)


def test_no_profiles_are_profiles_too(tmp_path: pathlib.Path) -> None:
    assert parse("{}") == parse("") == {}
    with pytest.raises(ProfilesError, match="none"):
        read(tmp_path / "none.yaml")
