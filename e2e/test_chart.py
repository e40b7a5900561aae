"""The chart as a GitOps tool uses it: rendered, checked by the API server, in a namespace of any name."""

import yaml

from e2e.gateway import NAMESPACE
from e2e.kube import Kube, run
from e2e.story import ROOT, Story

CHART = str(ROOT / "helm" / "forebay")


def rendered(namespace: str) -> str:
    done = run("helm", "template", "forebay", CHART, "-n", namespace)
    assert done.rc == 0, done.text
    manifests = [m for m in yaml.safe_load_all(done.out) if m]
    return yaml.safe_dump_all([m for m in manifests if "helm.sh/hook" not in m["metadata"].get("annotations", {})])


def test_the_api_server_takes_every_manifest_and_warns_of_none(story: Story) -> None:
    # The story's namespace enforces the restricted standard.
    done = story.kube.kubectl(
        "apply", "-n", story.namespace, "--dry-run=server", "-f", "-", stdin=rendered(story.namespace)
    )
    assert done.rc == 0, done.text
    # What helm has installed carries no annotation of kubectl's; that is no fault of the manifest.
    warnings = [line for line in done.err.splitlines() if "last-applied-configuration" not in line]
    assert not warnings, warnings


def test_what_is_installed_is_whole(cluster: Kube) -> None:
    api = "apiservice/v1beta2.custom.metrics.k8s.io"
    cluster.must("wait", "--for=condition=Available", api, "--timeout=30s")
    for component in ("operator", "gateway", "adapter"):
        name = f"deployment/forebay-{component}"
        cluster.must("rollout", "status", name, "-n", NAMESPACE, "--timeout=60s", timeout=70)
    listed = cluster.must("get", "--raw", "/apis/custom.metrics.k8s.io/v1beta2")
    assert "inferenceservices.forebay.dev/queue_depth" in listed


def test_the_components_hold_no_right_that_their_work_does_not_need(cluster: Kube) -> None:
    def may(component: str, *what: str) -> bool:
        account = f"system:serviceaccount:{NAMESPACE}:forebay-{component}"
        return cluster.kubectl("auth", "can-i", *what, "--as", account).out.strip() == "yes"

    assert may("operator", "patch", "deployments.apps", "-A")
    for component in ("operator", "gateway", "adapter"):
        assert not may(component, "list", "secrets", "-A"), component
        assert not may(component, "create", "pods", "-A"), component
        assert not may(component, "create", "clusterrolebindings"), component
    assert not may("gateway", "patch", "inferenceservices.forebay.dev", "-A")
    assert not may("adapter", "patch", "apiservice/v1.apps")
