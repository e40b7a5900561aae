"""Of two resources with one model name the older has it."""

from typing import Any

from forebay_operator.cluster.names import ModelNames
from forebay_operator.resource import InferenceService
from tests.operator.builders import SOURCE, resource


def claiming(name: str, model: str, created: str = "2026-03-01T11:00:00Z") -> InferenceService:
    block: dict[str, Any] = {"source": SOURCE, "servedName": model}
    return resource(name, model=block, created=created)


OLD = claiming("old", "m", "2026-03-01T10:00:00Z")
YOUNG = claiming("young", "m")


def heard(*resources: InferenceService) -> ModelNames:
    names = ModelNames()
    for each in resources:
        names.heard(each)
    return names


def test_the_older_one_has_the_name_whoever_was_heard_first() -> None:
    for names in (heard(OLD, YOUNG), heard(YOUNG, OLD)):
        assert names.older(YOUNG) == [("ns", "old")]
        assert names.older(OLD) == []


def test_of_the_same_age_the_first_by_name_has_it() -> None:
    a, b = claiming("a", "m"), claiming("b", "m")
    assert heard(a, b).older(b) == [("ns", "a")]
    assert heard(a, b).older(a) == []


def test_an_alias_is_a_name_like_any_other() -> None:
    several = resource("several", model={"source": SOURCE, "servedName": "n", "aliases": ["m"]})
    assert heard(OLD, several).older(several) == [("ns", "old")]
    names = heard(several, claiming("late", "n", "2026-03-01T12:00:00Z"))
    assert names.gone(several.key) == {("ns", "late")}


def test_those_who_wait_for_a_name_hear_when_it_is_free() -> None:
    names = heard(OLD, YOUNG)
    assert names.gone(OLD.key) == {YOUNG.key}
    assert names.older(YOUNG) == []


def test_a_change_of_name_concerns_the_holders_of_both_names() -> None:
    names = heard(OLD, YOUNG, claiming("third", "other"))
    assert names.heard(claiming("old", "other", "2026-03-01T10:00:00Z")) == {YOUNG.key, ("ns", "third")}


def test_news_without_a_change_concerns_nobody() -> None:
    assert heard(OLD, YOUNG).heard(YOUNG) == set()


def test_a_resource_without_a_served_name_claims_its_own() -> None:
    names = heard(resource("m", created="2026-03-01T09:00:00Z"), YOUNG)
    assert names.older(YOUNG) == [("ns", "m")]
