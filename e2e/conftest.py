"""Fixtures of the stories: a cluster, the gateway's address, and a namespace for each story."""

import pathlib
import sys
from collections.abc import Generator, Iterator

import pytest

# pytest loads this file for another suite too, when a file of this folder is among its arguments (`--product …`):
# so it finds its own way to the checkout, keeps to its own items, and shares no fixture's name with the operator suite.
HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))

from e2e.gateway import gateway_url  # noqa: E402
from e2e.kube import Kube  # noqa: E402
from e2e.story import Story  # noqa: E402

STORY = pytest.StashKey[Story]()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Kube]:
    opened = Kube()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def gateway(cluster: Kube) -> Iterator[str]:
    with gateway_url(cluster) as found:
        yield found


@pytest.fixture
def story(request: pytest.FixtureRequest, cluster: Kube, gateway: str) -> Iterator[Story]:
    begun = Story(cluster, gateway)
    request.node.stash[STORY] = begun
    yield begun
    begun.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(400))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    story = item.stash.get(STORY, None)
    if report.when == "call" and report.failed and story:
        report.sections.append(("what the cluster shows", story.evidence()))
    return report
