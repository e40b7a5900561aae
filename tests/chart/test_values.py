"""Values: each one does something, and what is not one is refused by name."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.chart.conftest import CHART, Manifest

Helm = Callable[..., subprocess.CompletedProcess[str]]
Render = Callable[..., list[Manifest]]


def deployment(manifests: list[Manifest], component: str) -> Manifest:
    return next(m for m in manifests if m["kind"] == "Deployment" and m["metadata"]["name"] == f"forebay-{component}")


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("image.tag=1", "image"),
        ("gateway.replica=3", "replica"),
        ("images.engines.ollama=r/o:1", "ollama"),
        ("gateway.replicas=0", "/gateway/replicas"),
        ("gateway.replicas=two", "/gateway/replicas"),
        ("gateway.service.type=Ingress", "/gateway/service/type"),
        ("adapter.resources.limits.gpu=1", "gpu"),
        ("adapter.resources.limits.memory=1GB", "/adapter/resources/limits/memory"),
        ("images.operator=registry:5000/forebay-operator", "/images/operator"),
        ("images.runtime=forebay-runtime:latest", "/images/runtime"),
        ("images.pullPolicy=Sometimes", "/images/pullPolicy"),
        ("crds.keep=perhaps", "/crds/keep"),
        ("networkPolicy.apiServerPorts={0}", "/networkPolicy/apiServerPorts"),
        ("scheduling.tolerations[0].efect=NoSchedule", "efect"),
        ("nodeSelector.disk=ssd", "nodeSelector"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, value: str, named: str) -> None:
    done = helm("template", "forebay", str(CHART), "--set", value)
    assert done.returncode != 0
    assert named in done.stderr, done.stderr


def test_every_object_of_the_schema_is_closed() -> None:
    def open_ones(schema: Any, path: str) -> list[str]:
        if not isinstance(schema, dict):
            return []
        here = [path] if "properties" in schema and schema.get("additionalProperties") is not False else []
        return here + [found for key, value in schema.items() for found in open_ones(value, f"{path}/{key}")]

    assert open_ones(json.loads((CHART / "values.schema.json").read_text()), "") == []


def test_every_default_is_one_that_the_schema_knows_and_the_other_way_round() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values.keys() == schema["properties"].keys() - {"global"}
    for section, defaults in values.items():
        if isinstance(defaults, dict) and section != "profiles":  # whose names are the user's own
            assert defaults.keys() == schema["properties"][section]["properties"].keys(), section


def test_the_file_of_values_can_be_read_in_one_look() -> None:
    assert len((CHART / "values.yaml").read_text().splitlines()) <= 60


def test_the_images_are_used_as_they_are_given(render: Render) -> None:
    made = render("images.operator=r.example/op:1", "images.runtime=r.example/run:2", "images.pullSecrets={a}")
    for component in ("operator", "gateway", "adapter"):
        pod = deployment(made, component)["spec"]["template"]["spec"]
        assert [c["image"] for c in pod["containers"]] == ["r.example/op:1"]
        assert pod["imagePullSecrets"] == [{"name": "a"}]
    (container,) = deployment(made, "operator")["spec"]["template"]["spec"]["containers"]
    assert "--runtime-image=r.example/run:2" in container["args"]


def test_pods_go_where_they_are_told(render: Render) -> None:
    made = render(
        "scheduling.nodeSelector.disk=ssd",
        "scheduling.tolerations[0].operator=Exists",
        "scheduling.priorityClassName=p",
    )
    for component in ("operator", "gateway", "adapter"):
        pod = deployment(made, component)["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"disk": "ssd"}
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["priorityClassName"] == "p"


def test_disruption_budgets_can_be_left_out(render: Render) -> None:
    assert not [m for m in render("disruptionBudgets=false") if m["kind"] == "PodDisruptionBudget"]


def test_network_policies_can_be_left_out_and_follow_the_api_servers_port(render: Render) -> None:
    assert not [m for m in render("networkPolicy.enabled=false") if m["kind"] == "NetworkPolicy"]
    policies = [m for m in render("networkPolicy.apiServerPorts={16443}") if m["kind"] == "NetworkPolicy"]
    for policy in policies:
        assert {"port": 16443, "protocol": "TCP"} in [p for e in policy["spec"]["egress"] for p in e["ports"]]


def test_replicas_and_the_gateways_service_follow_their_values(render: Render) -> None:
    made = render("gateway.replicas=3", "adapter.replicas=4", "gateway.service.type=NodePort", "gateway.drainSeconds=9")
    assert deployment(made, "adapter")["spec"]["replicas"] == 4
    gateway = deployment(made, "gateway")["spec"]
    assert (gateway["replicas"], gateway["template"]["spec"]["terminationGracePeriodSeconds"]) == (3, 24)
    service = next(m for m in made if m["kind"] == "Service" and m["metadata"]["name"] == "forebay-gateway")
    assert service["spec"]["type"] == "NodePort"


def test_the_gateway_asks_for_the_keys_of_a_secret(render: Render) -> None:
    pod = deployment(render("gateway.apiKeysSecret=team-keys"), "gateway")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "--api-keys-file=/keys/keys" in container["args"]
    assert {"name": "keys", "secret": {"secretName": "team-keys"}} in pod["volumes"]
    assert {"name": "keys", "mountPath": "/keys", "readOnly": True} in container["volumeMounts"]
