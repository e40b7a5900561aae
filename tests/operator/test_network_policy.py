"""Who may reach the pods."""

from typing import Any

from forebay_operator.children.network_policy import network_policy
from forebay_operator.config import Config
from forebay_operator.resource import Spec
from tests.operator.builders import resource

CONFIG = Config("registry/runtime:1", "registry/operator:1", service_account="forebay-system/forebay-operator")
FOREBAY = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "forebay-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "forebay"}},
}


def peers(access: dict[str, Any], config: Config = CONFIG) -> list[Any]:
    """Each ingress rule's `from`; None for everybody."""
    of = resource(access=access)
    assert isinstance(of.spec, Spec)
    return [rule.get("from") for rule in network_policy(of, of.spec, config)["spec"].get("ingress", [])]


def test_everybody_may_unless_it_is_said_otherwise() -> None:
    assert peers({}) == [None]


def test_those_who_are_named_may_and_forebays_own_programs() -> None:
    asked = [{"pods": {"app": "web"}}, {"namespaces": {"team": "a"}}, {"namespaces": {}, "pods": {"role": "probe"}}]
    assert peers({"from": asked}) == [
        [
            FOREBAY,
            {"podSelector": {"matchLabels": {"app": "web"}}},
            {"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {}},
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": "probe"}}},
        ]
    ]


def test_nobody_named_is_nobody_but_forebay() -> None:
    assert peers({"from": []}) == [[FOREBAY]]


def test_no_peers_at_all_are_no_rule_and_not_a_rule_for_everybody() -> None:
    assert peers({"from": []}, Config("registry/runtime:1", "registry/operator:1")) == []
