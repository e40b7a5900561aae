"""The RoleBinding that lets the operator read Secrets in the resource's namespace, only while it names one."""

from __future__ import annotations

from forebay_operator.children.metadata import child
from forebay_operator.config import Config
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService

RBAC = "rbac.authorization.k8s.io"


def role_binding(resource: InferenceService, config: Config) -> Manifest:
    namespace, name = config.service_account.split("/", 1)
    return child(
        "RoleBinding",
        resource,
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": config.credentials_role},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    )
