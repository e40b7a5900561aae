"""`pvc://claim/path`: the model lies on a volume that the user has filled."""

from collections.abc import Iterator

import pytest

from e2e.kube import Kube
from e2e.load import Request
from e2e.story import Story, Wanted
from e2e.volumes import claimed, on_the_volume

ON_THE_NODE = "/var/tmp/forebay-story"
CLAIM = "models"


@pytest.fixture
def filled(cluster: Kube, story: Story) -> Iterator[str]:
    """`claim/path` of the sample model's files."""
    volume = claimed(cluster, story, CLAIM, ON_THE_NODE)
    fill = "import shutil; shutil.copytree('/model', '/data/sample', dirs_exist_ok=True)"
    on_the_volume(story, CLAIM, "fill", fill)
    yield f"{CLAIM}/sample"
    cluster.must("delete", "isvc", "--all", "-n", story.namespace, "--timeout=30s")
    on_the_volume(story, CLAIM, "empty", "import shutil; shutil.rmtree('/data/sample')")
    cluster.must("delete", "pv", volume, "--wait=false")


def test_a_model_on_a_volume_is_served(story: Story, filled: str) -> None:
    served = story.apply(Wanted("stored").with_(model={"source": f"pvc://{filled}"}))
    served.becomes_ready()
    with served.under_load(Request(tokens=8)) as load:
        load.goes_on(1)


def test_a_claim_that_does_not_exist_is_named(story: Story) -> None:
    served = story.apply(Wanted("unbound").with_(model={"source": "pvc://no-such-claim/sample"}))
    served.comes_to_say("no-such-claim", seconds=60)
