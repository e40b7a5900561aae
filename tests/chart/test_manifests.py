"""What must hold for every object that the chart makes."""

import subprocess
from collections.abc import Callable, Iterator

from tests.chart.conftest import CHART, Manifest

CLUSTERED = {"APIService", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    found = [m for m in manifests if m["kind"] in kinds]
    assert found, f"the chart makes no {kinds}"
    return found


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """(name, pod spec) of every workload, the `helm test` pod among them."""
    for m in of_kind(manifests, "Deployment", "Pod"):
        yield m["metadata"]["name"], m["spec"]["template"]["spec"] if m["kind"] == "Deployment" else m["spec"]


def containers(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for name, pod in pods(manifests):
        for container in pod.get("initContainers", []) + pod["containers"]:
            yield f"{name}/{container['name']}", container


def test_lint_is_content(helm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_rendering_twice_gives_the_same_bytes(render: Callable[..., list[Manifest]]) -> None:
    assert render() == render()


def test_every_object_lies_in_the_namespace_that_was_asked_for(manifests: list[Manifest]) -> None:
    for m in manifests:
        expected = None if m["kind"] in CLUSTERED else "somewhere"
        assert m["metadata"].get("namespace") == expected, f"{m['kind']} {m['metadata']['name']}"


def test_every_binding_names_an_account_of_that_namespace(manifests: list[Manifest]) -> None:
    accounts = {m["metadata"]["name"] for m in of_kind(manifests, "ServiceAccount")}
    for m in of_kind(manifests, "RoleBinding", "ClusterRoleBinding"):
        for subject in m["subjects"]:
            assert subject["namespace"] == "somewhere"
            assert subject["name"] in accounts


def test_every_object_carries_the_recommended_labels(manifests: list[Manifest]) -> None:
    for m in manifests:
        labels = m["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "forebay", m["metadata"]["name"]
        assert {"app.kubernetes.io/component", "app.kubernetes.io/instance", "helm.sh/chart"} <= labels.keys()


def test_no_role_holds_a_wildcard(manifests: list[Manifest]) -> None:
    for m in of_kind(manifests, "Role", "ClusterRole"):
        for rule in m["rules"]:
            for words in rule.values():
                assert not [w for w in words if "*" in w], f"{m['metadata']['name']}: {rule}"


def test_nobody_may_read_secrets_of_the_whole_cluster(manifests: list[Manifest]) -> None:
    bound = {m["roleRef"]["name"] for m in of_kind(manifests, "ClusterRoleBinding")}
    for m in of_kind(manifests, "ClusterRole"):
        if m["metadata"]["name"] in bound:
            assert not [r for r in m["rules"] if "secrets" in r["resources"]], m["metadata"]["name"]


def test_the_operator_may_give_no_role_but_the_one_for_credentials(manifests: list[Manifest]) -> None:
    rules = [r for m in of_kind(manifests, "Role", "ClusterRole") for r in m["rules"]]
    assert not [r for r in rules if {"escalate", "impersonate"} & set(r["verbs"])]
    assert [r["resourceNames"] for r in rules if "bind" in r["verbs"]] == [["forebay-operator-credentials"]]


def test_every_pod_meets_the_restricted_standard(manifests: list[Manifest]) -> None:
    for name, pod in pods(manifests):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] == 65532, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}, name
        assert all(v.keys() & {"emptyDir", "configMap", "secret", "projected"} for v in pod["volumes"]), name
    for name, container in containers(manifests):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True, name
        assert context["capabilities"] == {"drop": ["ALL"]}, name


def test_images_of_other_engines_reach_the_operator(render: Callable[..., list[Manifest]]) -> None:
    found = dict(containers(render("images.engines.vllm=registry/vllm:1")))
    assert "--engine-image=vllm=registry/vllm:1" in found["forebay-operator/operator"]["args"]


def test_one_operator_works_at_a_time(manifests: list[Manifest]) -> None:
    found = dict(containers(manifests))["forebay-operator/operator"]["args"]
    assert "--lease=somewhere/forebay-operator" in found
    assert "--identity=$(POD_NAME)" in found
    (role,) = [m for m in of_kind(manifests, "Role") if m["metadata"]["name"] == "forebay-operator"]
    assert {r["resources"][0] for r in role["rules"]} == {"leases"}


def test_every_image_is_pinned(manifests: list[Manifest]) -> None:
    for name, container in containers(manifests):
        _, _, tag = container["image"].rpartition("/")[2].partition(":")
        assert tag, f"{name}: {container['image']}"
        assert tag != "latest", name


def test_every_component_is_probed(manifests: list[Manifest]) -> None:
    for m in of_kind(manifests, "Deployment"):
        for container in m["spec"]["template"]["spec"]["containers"]:
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), m["metadata"]["name"]


def test_every_container_fits_a_small_cluster(manifests: list[Manifest]) -> None:
    for name, container in containers(manifests):
        cpu = container["resources"]["requests"]["cpu"]
        assert cpu.endswith("m"), f"{name} asks for {cpu}"
        assert 10 <= int(cpu.removesuffix("m")) <= 50, f"{name} asks for {cpu}"
        assert container["resources"]["limits"]["memory"], name


def test_what_runs_more_than_once_has_a_disruption_budget_and_all_have_a_network_policy(
    manifests: list[Manifest],
) -> None:
    budgets = {m["metadata"]["name"] for m in of_kind(manifests, "PodDisruptionBudget")}
    policies = {m["metadata"]["name"] for m in of_kind(manifests, "NetworkPolicy")}
    for m in of_kind(manifests, "Deployment"):
        name = m["metadata"]["name"]
        assert (name in budgets) == (m["spec"]["replicas"] > 1), name
        assert name in policies


def test_every_service_selects_the_pods_of_its_deployment(manifests: list[Manifest]) -> None:
    deployments = {m["metadata"]["name"]: m["spec"]["template"] for m in of_kind(manifests, "Deployment")}
    for m in of_kind(manifests, "Service"):
        template = deployments[m["metadata"]["name"]]
        assert m["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        ports = {p["name"] for c in template["spec"]["containers"] for p in c["ports"]}
        assert {p["targetPort"] for p in m["spec"]["ports"]} <= ports


def test_the_metrics_api_leads_to_the_adapter_and_carries_no_certificate(manifests: list[Manifest]) -> None:
    (api,) = of_kind(manifests, "APIService")
    assert api["metadata"]["name"] == "v1beta2.custom.metrics.k8s.io"
    assert api["spec"]["service"] == {"name": "forebay-adapter", "namespace": "somewhere", "port": 443}
    assert not api["spec"].keys() & {"caBundle", "insecureSkipTLSVerify"}
    (secret,) = of_kind(manifests, "Secret")
    assert not secret.keys() & {"data", "stringData"}, "the adapter fills it, see docs/adr/0003"
