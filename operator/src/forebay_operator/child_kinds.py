"""The kinds of children that a resource may have, and where they are in the API. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChildKind:
    """A kind of child and where its objects are in the API. A resource has at most one of each kind; those of
    SHARED_KINDS have names of their own, and several owners."""

    kind: str
    group: str
    version: str
    plural: str
    suffix: str = ""
    optional: bool = False  # whether there are clusters without it

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def name(self, resource_name: str) -> str:
        return resource_name + self.suffix

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def listing(self) -> str:
        """Where the objects of all namespaces are listed and watched."""
        return f"{self.root}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}"


CHILD_KINDS = {
    k.kind: k
    for k in (
        ChildKind("Deployment", "apps", "v1", "deployments"),
        ChildKind("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "-group", optional=True),
        ChildKind("Service", "", "v1", "services"),
        ChildKind("HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers"),
        ChildKind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
        ChildKind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
        ChildKind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings", "-credentials"),
    )
}

SHARED_KINDS = {
    k.kind: k
    for k in (
        ChildKind("Job", "batch", "v1", "jobs"),
        ChildKind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    )
}
ALL_KINDS = CHILD_KINDS | SHARED_KINDS
