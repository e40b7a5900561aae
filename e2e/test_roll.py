"""An edit rolls under streaming load, and nobody who asks notices."""

from e2e.kube import path_of
from e2e.load import Request
from e2e.story import PODS, Story, Wanted
from e2e.watch import Watch

STREAM = Request(tokens=96)
SHORT = Request(tokens=8, stream=False)


def test_the_old_revision_goes_only_when_the_new_one_serves(story: Story) -> None:
    served = story.apply(Wanted("rolls"))
    served.becomes_ready()
    old = served.pod_names()

    watch = Watch(story.kube, path_of(PODS, story.namespace), lambda: len(served.ready_pods()))
    with served.under_load(STREAM, STREAM, SHORT) as load, watch as ready:
        load.goes_on(2)
        served.edit(engine__args=["--max-num-seqs=12"])
        served.becomes_ready()
        load.goes_on(3)

    assert min(ready.seen) >= 1, f"ready pods during the roll: {ready.seen}"
    assert not served.pod_names() & old
    for pod in served.pods():
        assert "--max-num-seqs=12" in pod["spec"]["containers"][0]["args"]


def test_going_back_is_a_roll_like_any_other(story: Story) -> None:
    served = story.apply(Wanted("back"))
    first = served.becomes_ready()["status"]["revision"]
    served.edit(engine__args=["--max-num-seqs=12"])
    assert served.becomes_ready()["status"]["revision"] != first
    served.edit(engine__args=[])
    served.becomes_ready()
    assert len(served.pods()) == 1
