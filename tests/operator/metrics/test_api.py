"""custom.metrics.k8s.io/v1beta2, document by document."""

import datetime
import json
from typing import Any

import pytest
from starlette.types import Message

from forebay_operator.endpoints import Service
from forebay_operator.metrics.api import ROOT, MetricsApi, quantity
from forebay_operator.metrics.window import NoData, Value

NOW = datetime.datetime(2026, 11, 29, 12, 0, 2, 700_000, tzinfo=datetime.UTC)
SERVICES = [
    Service("default", "llama", ("llama",), labels={"tier": "gold"}),
    Service("default", "quiet", ("quiet",)),
    Service("other", "llama", ("x",)),
]
OBJECTS = f"{ROOT}/namespaces/default/inferenceservices.forebay.dev"


def values(namespace: str, name: str) -> dict[str, Value | NoData]:
    if (namespace, name) == ("default", "llama"):
        return {"queue_depth": Value(2.5, age=1), "ttft_p95_ms": Value(412, age=2, window=70.0)}
    return dict.fromkeys(("queue_depth", "ttft_p95_ms"), NoData("no ready pod has been scraped"))


async def ask(
    path: str, query: str = "", *, method: str = "GET", peer: str | None = "front-proxy", allowed: tuple[str, ...] = ()
) -> tuple[int, Any]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [],
    }
    scope["extensions"] = {"tls": {"client_cert_name": peer}}
    await MetricsApi(lambda: SERVICES, values, lambda: allowed, lambda: NOW)(scope, receive, send)
    assert dict(sent[0]["headers"])[b"content-type"] == b"application/json"
    return sent[0]["status"], json.loads(sent[1]["body"])


async def test_discovery_lists_both_metrics() -> None:
    status, document = await ask(ROOT)
    assert status == 200
    assert document == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "custom.metrics.k8s.io/v1beta2",
        "resources": [
            {
                "name": f"inferenceservices.forebay.dev/{metric}",
                "singularName": "",
                "namespaced": True,
                "kind": "MetricValueList",
                "verbs": ["get"],
            }
            for metric in ("queue_depth", "ttft_p95_ms")
        ],
    }


async def test_a_value_is_one_item() -> None:
    status, document = await ask(f"{OBJECTS}/llama/ttft_p95_ms", "metricLabelSelector=")
    assert status == 200
    assert document == {
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "metadata": {},
        "items": [
            {
                "describedObject": {
                    "kind": "InferenceService",
                    "namespace": "default",
                    "name": "llama",
                    "apiVersion": "forebay.dev/v1alpha1",
                },
                "metric": {"name": "ttft_p95_ms", "selector": None},
                "timestamp": "2026-11-29T12:00:00Z",
                "windowSeconds": 70,
                "value": "412",
            }
        ],
    }


async def test_a_value_of_the_moment_has_no_window() -> None:
    _, document = await ask(f"{OBJECTS}/llama/queue_depth")
    assert "windowSeconds" not in document["items"][0]
    assert document["items"][0]["value"] == "2500m"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3, "3"),
        (2.5, "2500m"),
        (0.85, "850m"),
        (1e-5, "0"),
        (1 / 3, "333m"),
        (1e12, "1000000000000"),
        (0.9999, "1"),
    ],
)
def test_quantities(value: float, text: str) -> None:
    assert quantity(value) == text


@pytest.mark.parametrize("name", ["quiet", "nobody"])
async def test_what_is_not_known_is_a_404_of_kind_status(name: str) -> None:
    status, document = await ask(f"{OBJECTS}/{name}/queue_depth")
    assert status == 404
    assert {k: document[k] for k in ("kind", "status", "reason", "code")} == {
        "kind": "Status",
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
    }
    message = f"the server could not find the metric queue_depth for inferenceservices.forebay.dev {name}"
    assert document["message"].startswith(message)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/apis",
        "/apis/custom.metrics.k8s.io",
        "/openapi/v2",
        f"{ROOT}x",
        f"{ROOT}/namespaces/default/pods/*/queue_depth",
        f"{OBJECTS}/llama/nothing",
        f"{OBJECTS}/llama",
        f"{OBJECTS}/llama/queue_depth/x",
    ],
)
async def test_other_paths_are_a_404(path: str) -> None:
    assert (await ask(path))[0] == 404


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["llama"]),
        ("labelSelector=tier%3Dgold", ["llama"]),
        ("labelSelector=tier%21%3Dgold", []),
        ("labelSelector=x", []),
    ],
)
async def test_a_star_lists_those_with_a_value(query: str, names: list[str]) -> None:
    status, document = await ask(f"{OBJECTS}/*/queue_depth", query)
    assert (status, [i["describedObject"]["name"] for i in document["items"]]) == (200, names)


@pytest.mark.parametrize("query", ["labelSelector=%3D%3D%3D", "metricLabelSelector=a%3Db"])
async def test_a_selector_that_cannot_be_honoured_is_refused(query: str) -> None:
    status, document = await ask(f"{OBJECTS}/*/queue_depth", query)
    assert (status, document["reason"]) == (400, "BadRequest")
    assert query.split("=")[0] in document["message"]


@pytest.mark.parametrize(
    ("peer", "allowed", "status"),
    [
        ("front-proxy", ("front-proxy",), 200),
        ("front-proxy", (), 200),
        ("someone", ("front-proxy",), 401),
        (None, ("front-proxy",), 401),
        (None, (), 401),
    ],
)
async def test_only_the_aggregation_layer_may_ask(peer: str | None, allowed: tuple[str, ...], status: int) -> None:
    for path in (ROOT, f"{OBJECTS}/llama/queue_depth"):
        assert (await ask(path, peer=peer, allowed=allowed))[0] == status


async def test_nothing_can_be_written() -> None:
    assert (await ask(ROOT, method="POST"))[0] == 405
