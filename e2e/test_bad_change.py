"""A change that cannot work: a condition names the root cause, the old pods serve on, putting it back heals."""

from typing import Any

import pytest

from e2e.load import Request
from e2e.story import Served, Story, Wanted

SHORT = Request(tokens=8)


def changed_image(served: Served) -> dict[str, Any]:
    """The image that runs now, at a tag that its registry does not have."""
    (pod,) = served.pods()
    image: str = pod["spec"]["containers"][0]["image"]
    name, _, _ = image.partition("@")[0].rpartition(":")
    return {"engine__image": f"{name}:no-such-tag"}


def without_weights(served: Served) -> dict[str, Any]:
    """The runtime's own image in place of a model: a folder without weights."""
    (pod,) = served.pods()
    return {"model__source": "oci://" + pod["spec"]["containers"][0]["image"]}


def too_small(_: Served) -> dict[str, Any]:
    return {"resources__requests__memory": "64Mi", "resources__limits__memory": "160Mi"}


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (changed_image, r"(ErrImagePull|ImagePullBackOff).*no-such-tag"),
        (without_weights, r"(?s)CrashLoop.*exit.*(weights|config\.json|\.gguf)"),
        (too_small, r"does not fit.*but a pod has 160 MiB"),
    ],
    ids=["an image that does not exist", "a model that cannot load", "memory too small"],
)
def test_a_bad_change_is_named_hurts_nobody_and_heals(story: Story, change: Any, cause: str) -> None:
    served = story.apply(Wanted("bad"))
    good = served.becomes_ready()["spec"]
    (old,) = served.pod_names()

    with served.under_load(SHORT) as load:
        served.reapply(**change(served))
        served.comes_to_say(cause, seconds=60)
        assert served.condition("Ready")["status"] == "False"
        assert served.condition("Available")["status"] == "True", "the old pod serves"
        load.goes_on(3)

        served.reapply()
        assert served.becomes_ready(seconds=60)["spec"] == good
        load.goes_on(3)
    assert served.pod_names() == {old}, "what served all along needs no new start"
