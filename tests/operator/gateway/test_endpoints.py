"""Custom resources and EndpointSlices as routes."""

from typing import Any

import pytest

from forebay_operator.endpoints import (
    Endpoint,
    Service,
    Slice,
    endpoints_by_service,
    parse_service,
    parse_slice,
    routes,
)


def a_slice(*endpoints: dict[str, Any], **fields: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": "llama", "app.kubernetes.io/managed-by": "forebay-operator"}
    return {
        "metadata": {"namespace": "default", "name": "llama-x", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "metrics", "port": 9090}, {"name": "http", "port": 8000}],
        "endpoints": list(endpoints),
        **fields,
    }


def an_endpoint(address: str = "10.0.0.1", conditions: dict[str, bool] | None = None) -> dict[str, Any]:
    return {"addresses": [address], "targetRef": {"kind": "Pod", "name": "llama-1"}, "conditions": conditions}


@pytest.mark.parametrize(
    ("conditions", "taken"),
    [
        ({"ready": True, "serving": True, "terminating": False}, True),
        ({}, True),  # the API's rule: unknown is to be taken as ready
        ({"ready": False, "serving": False, "terminating": False}, False),
        ({"ready": False, "serving": True, "terminating": True}, False),
        ({"ready": True, "serving": True, "terminating": True}, False),
    ],
)
def test_only_ready_endpoints_that_stay_take_requests(conditions: dict[str, bool], taken: bool) -> None:
    found = parse_slice(a_slice(an_endpoint(conditions=conditions))).endpoints
    assert found == ((Endpoint("10.0.0.1:8000", "llama-1"),) if taken else ())


def test_a_slice_without_endpoints_or_ports_has_none() -> None:
    assert parse_slice(a_slice(endpoints=None)).endpoints == ()
    assert parse_slice(a_slice(an_endpoint(), ports=None)).endpoints == ()


@pytest.mark.parametrize("name", ["a\r\nset-cookie: b", "a b", "", "x" * 300, 7])
def test_a_name_that_no_pod_can_have_is_not_told(name: Any) -> None:
    found = parse_slice(a_slice({**an_endpoint(), "targetRef": {"kind": "Pod", "name": name}})).endpoints
    assert found == (Endpoint("10.0.0.1:8000", "7" if name == 7 else ""),)


def test_ipv6_addresses_are_bracketed() -> None:
    assert parse_slice(a_slice(an_endpoint("fd00::1"), addressType="IPv6")).endpoints[0].address == "[fd00::1]:8000"


def test_a_pod_with_two_addresses_is_one_endpoint() -> None:
    both = [
        Slice("default", "llama", (Endpoint("[fd00::1]:8000", "llama-1"),)),
        Slice("default", "llama", (Endpoint("10.0.0.1:8000", "llama-1"), Endpoint("10.0.0.2:8000", "llama-2"))),
    ]
    assert endpoints_by_service(both)["default", "llama"] == (
        Endpoint("10.0.0.1:8000", "llama-1"),
        Endpoint("10.0.0.2:8000", "llama-2"),
    )


def a_service(name: str, model: str | None = None, namespace: str = "default", created: str = "") -> Service:
    return parse_service(
        {
            "metadata": {"namespace": namespace, "name": name, "creationTimestamp": created},
            "spec": {"model": {"source": "oci://x", "servedName": model}},
        }
    )


def test_a_service_is_asked_for_by_its_served_name_or_else_its_own() -> None:
    assert (a_service("llama").model, a_service("llama", "org/llama-3").model) == ("llama", "org/llama-3")


def test_a_service_without_endpoints_is_known_all_the_same() -> None:
    assert routes([a_service("llama")], [])["llama"].endpoints == ()


def test_endpoints_go_to_the_service_of_their_own_namespace() -> None:
    slices = [Slice("one", "llama", (Endpoint("10.0.0.1:8000"),)), Slice("two", "llama", (Endpoint("10.0.0.2:8000"),))]
    services = [a_service("llama", namespace="one"), a_service("llama", "other", namespace="two")]
    found = routes(services, slices)
    assert {m: [e.address for e in r.endpoints] for m, r in found.items()} == {
        "llama": ["10.0.0.1:8000"],
        "other": ["10.0.0.2:8000"],
    }


def test_of_two_services_with_one_model_name_the_older_has_it() -> None:
    young = a_service("llama", namespace="a", created="2026-11-29T12:00:01Z")
    old = a_service("llama", namespace="b", created="2026-11-29T12:00:00Z")
    assert routes([young, old], [])["llama"].service is old
