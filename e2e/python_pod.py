"""Pods of a story's own that run a little Python beside the sample model's files."""

from e2e.gateway import NAMESPACE
from e2e.kube import Kube, Object, path_of
from e2e.story import DEPLOYMENTS, sample


def model_image() -> str:
    """The image that holds the sample model's files."""
    source: str = sample()["spec"]["model"]["source"]
    assert source.startswith("oci://"), f"this story takes the model's files from an image, not from {source}"
    return source.removeprefix("oci://")


def operator_image(kube: Kube) -> str:
    deployment = kube.get(path_of(DEPLOYMENTS, NAMESPACE, "forebay-operator"))
    assert deployment, f"no operator in {NAMESPACE}"
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def python_pod(kube: Kube, name: str, *command: str, root: bool = False) -> Object:
    """A pod of the restricted standard (but for `root`) that runs python3 with the model at /model."""
    user = {"runAsUser": 0} if root else {"runAsNonRoot": True, "runAsUser": 65532}
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": [] if root else ["ALL"]}}
    container = {
        "name": name,
        "image": operator_image(kube),
        "command": ["python3", *command],
        "securityContext": closed,
        "volumeMounts": [{"name": "model", "mountPath": "/model", "readOnly": True}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": user | {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "model", "image": {"reference": model_image()}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"story": name}}, "spec": spec}


def add_volume(pod: Object, name: str, path: str, source: Object) -> None:
    pod["spec"]["volumes"].append({"name": name} | source)
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": name, "mountPath": path})
