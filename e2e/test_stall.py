"""An engine that stands still is taken out of rotation, ended, started again, and its stall is named."""

import os
import pathlib
import signal

import pytest

from e2e.kube import path_of
from e2e.load import Request
from e2e.story import ISVC, PODS, Story, Wanted


def process_of(model: str) -> int | None:
    """The runtime's process that serves this model, where the node is this machine."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"--served-model-name={model}".encode() in words:
            return int(entry.parent.name)
    return None


def test_a_stalled_engine_is_named_and_started_again(story: Story) -> None:
    served = story.apply(Wanted("stalls"))
    served.becomes_ready()
    (pod,) = served.pod_names()
    process = process_of(served.model)
    if process is None:
        pytest.fail("this story stops the engine's process: run it on the node that serves")

    os.kill(process, signal.SIGSTOP)
    isvc = path_of(ISVC, story.namespace)
    unready = lambda: served.condition("Ready").get("status") == "False" or None  # noqa: E731
    story.kube.until(unready, isvc, 30, "a service whose engine stands still is not Ready")
    served.comes_to_say("EngineStalled", seconds=90)

    served.becomes_ready()
    assert served.pod_names() == {pod}, "the container is started again, not the pod"
    (one,) = story.kube.items(path_of(PODS, story.namespace), f"forebay.dev/inferenceservice={served.name}")
    assert one["status"]["containerStatuses"][0]["restartCount"] == 1
    with served.under_load(Request(tokens=8)) as load:
        load.goes_on(1)
