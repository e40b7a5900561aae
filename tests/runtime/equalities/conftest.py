"""What the equalities of the serving types have in common, for the `model` and `requests` of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay_runtime.models import LoadedModel
from forebay_runtime.request import Request
from tests.support.answers import Answer, answers
from tests.support.native_engine import engine


@pytest.fixture(scope="module")
def alone(model: LoadedModel, requests: list[Request]) -> dict[str, Answer]:
    got: dict[str, Answer] = {}
    for wanted in requests:
        got |= answers(engine(model, blocks=64), [wanted])
    return got


@pytest.fixture(params=[1, 2], ids=["one-thread", "two-threads"])
def threads(model: LoadedModel, request: pytest.FixtureRequest) -> Iterator[None]:
    assert model.library is not None
    model.library.set_threads(request.param)
    yield
    model.library.set_threads(1)
