"""Fixtures of the stories: a cluster, the gateway's address, and a namespace for each story."""

from collections.abc import Generator, Iterator

import pytest

from e2e.gateway import gateway_url
from e2e.kube import Kube
from e2e.story import Story

STORY = pytest.StashKey[Story]()


@pytest.fixture(scope="session")
def kube() -> Iterator[Kube]:
    opened = Kube()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def url(kube: Kube) -> Iterator[str]:
    with gateway_url(kube) as found:
        yield found


@pytest.fixture
def story(request: pytest.FixtureRequest, kube: Kube, url: str) -> Iterator[Story]:
    begun = Story(kube, url)
    request.node.stash[STORY] = begun
    yield begun
    begun.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(400))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    story = item.stash.get(STORY, None)
    if report.when == "call" and report.failed and story:
        report.sections.append(("what the cluster shows", story.evidence()))
    return report
