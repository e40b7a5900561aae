"""The words in which a story speaks: a builder for the object, a handle on what was applied, a place of its own."""

import copy
import dataclasses
import os
import pathlib
import re
import uuid
from typing import Any

import yaml

from e2e.gateway import NAMESPACE
from e2e.kube import Kube, Object, path_of
from e2e.load import Load, Request

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLE = pathlib.Path(os.environ.get("FOREBAY_EXAMPLE", ROOT / "crds" / "examples" / "smollm2.yaml"))
ISVC = "forebay.dev/v1alpha1/inferenceservices"
DEPLOYMENTS = "apps/v1/deployments"
PODS = "v1/pods"
TOO_MUCH_MEMORY = "900Gi"


def sample() -> Object:
    """The object of crds/examples: what every story starts from. FOREBAY_MODEL names another model source."""
    manifest: Object = next(d for d in yaml.safe_load_all(EXAMPLE.read_text()) if d["kind"] == "InferenceService")
    if source := os.environ.get("FOREBAY_MODEL"):
        manifest["spec"]["model"]["source"] = source
    return manifest


def put(tree: Object, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = value


@dataclasses.dataclass(frozen=True)
class Wanted:
    """An InferenceService in the making: each word gives a new one."""

    name: str
    fields: tuple[tuple[str, Any], ...] = ()

    def with_(self, **fields: Any) -> "Wanted":
        """Fields of the spec; two underscores go one level down: `engine__args=["--max-num-seqs=2"]`."""
        more = tuple((key.replace("__", "."), value) for key, value in fields.items())
        return dataclasses.replace(self, fields=self.fields + more)

    def parked(self) -> "Wanted":
        """Its pods fit on no node, so they cost nothing."""
        return self.with_(resources={"requests": {"memory": TOO_MUCH_MEMORY}, "limits": {"memory": TOO_MUCH_MEMORY}})

    def scaling(self, most: int, behavior: Object | None = None, **targets: Any) -> "Wanted":
        # A user's default, 60 s, is too long for a story.
        calm = behavior or {"scaleDown": {"stabilizationWindowSeconds": 5}}
        bounds = {"minReplicas": 1, "maxReplicas": most, "targets": targets, "behavior": calm}
        return self.with_(scaling=bounds)

    def manifest(self, served_name: str) -> Object:
        made = copy.deepcopy(sample())
        spec: Object = {"model": made["spec"]["model"], "resources": made["spec"].get("resources", {})}
        for path, value in self.fields:
            put(spec, path, copy.deepcopy(value))
        put(spec, "model.servedName", served_name)
        return {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": {"name": self.name}, "spec": spec}


class Served:
    """A handle on one applied InferenceService: asks, edits, waits."""

    def __init__(self, kube: Kube, namespace: str, url: str, manifest: Object) -> None:
        self.kube, self.namespace, self.url, self.manifest = kube, namespace, url, manifest
        self.name: str = manifest["metadata"]["name"]
        self.model: str = manifest["spec"]["model"]["servedName"]
        self.path = path_of(ISVC, namespace, self.name)

    # ------------------------------------------------------------ looking
    def now(self) -> Object:
        found = self.kube.get(self.path)
        assert found, f"{self.name} is not there"
        return found

    def condition(self, type_: str) -> Object:
        """The condition as it stands for the present generation; empty while there is none."""
        isvc = self.now()
        for condition in isvc.get("status", {}).get("conditions", []):
            if condition["type"] == type_ and condition["observedGeneration"] == isvc["metadata"]["generation"]:
                return dict(condition)
        return {}

    def says(self) -> str:
        """What all its conditions say, a line for each."""
        conditions = self.now().get("status", {}).get("conditions", [])
        return "\n".join(f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in conditions)

    def pods(self) -> list[Object]:
        """Its pods, but those that are leaving."""
        found = self.kube.items(path_of(PODS, self.namespace), f"forebay.dev/inferenceservice={self.name}")
        return [p for p in found if "deletionTimestamp" not in p["metadata"]]

    def ready_pods(self) -> list[Object]:
        def ready(pod: Object) -> bool:
            return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))

        return [p for p in self.pods() if ready(p)]

    def pod_names(self) -> set[str]:
        return {p["metadata"]["name"] for p in self.pods()}

    def metric(self, pod: Object, name: str) -> float:
        """The sum over the labels of a metric of this pod, read through the API server."""
        base = path_of(PODS, self.namespace, f"{pod['metadata']['name']}:8000")
        text = self.kube.call("GET", f"{base}/proxy/metrics").text
        return sum(float(v) for v in re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    # ------------------------------------------------------------ doing
    def edit(self, **fields: Any) -> None:
        """Changes fields of the spec, named as in `Wanted.with_`; None takes one away."""
        change: Object = {}
        for key, value in fields.items():
            put(change, "spec." + key.replace("__", "."), value)
        self.kube.patch(self.path, change)

    def reapply(self, **fields: Any) -> None:
        """Applies its manifest with these fields changed, named as in `Wanted.with_`; without any, as it was first."""
        manifest = copy.deepcopy(self.manifest)
        for key, value in fields.items():
            put(manifest["spec"], key.replace("__", "."), value)
        self.kube.apply(self.namespace, manifest)

    def under_load(self, *clients: Request) -> Load:
        return Load(self.url, self.model, list(clients))

    # ------------------------------------------------------------ waiting
    def becomes_ready(self, seconds: float = 150) -> Object:
        """Its present generation serves at its wanted replicas."""
        look = lambda: self.now() if self.condition("Ready").get("status") == "True" else None  # noqa: E731
        return self.kube.until(look, path_of(ISVC, self.namespace), seconds, f"{self.name} is Ready: {self.says()}")

    def comes_to_say(self, pattern: str, seconds: float = 60) -> str:
        """Some condition names this (a regular expression)."""
        look = lambda: said if re.search(pattern, said := self.says()) else None  # noqa: E731
        return self.kube.until(look, path_of(ISVC, self.namespace), seconds, f"{self.name} says {pattern}")

    def comes_to_serve_with(self, count: int, seconds: float = 90) -> list[Object]:
        """So many ready pods, none fewer or more on their way."""

        def look() -> list[Object] | None:
            ready = self.ready_pods()
            return ready if len(ready) == count == len(self.pods()) else None

        what = f"{self.name} serves with {count} pods"
        return self.kube.until(look, path_of(PODS, self.namespace), seconds, what)


class Story:
    """A namespace of its own and the gateway's address."""

    def __init__(self, kube: Kube, url: str) -> None:
        self.kube, self.url = kube, url
        self.id = uuid.uuid4().hex[:6]
        self.namespace = f"story-{self.id}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        kube.apply(
            "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": labels}}
        )

    def enforces(self, standard: str) -> None:
        """The pod security standard that every pod of the namespace has to meet from now on."""
        label = f"pod-security.kubernetes.io/enforce={standard}"
        self.kube.must("label", "namespace", self.namespace, label, "--overwrite")

    def apply(self, wanted: Wanted) -> Served:
        # Served names are the cluster's: two stories must not share one.
        manifest = wanted.manifest(served_name=f"{wanted.name}-{self.id}")
        self.kube.apply(self.namespace, manifest)
        return Served(self.kube, self.namespace, self.url, manifest)

    def evidence(self) -> str:
        """What the cluster shows, for the reader of a failure."""
        ns = ("-n", self.namespace)
        looks: list[tuple[str, ...]] = [
            ("get", "isvc", *ns, "-o", "yaml"),
            ("get", "all,hpa,pdb,networkpolicy,pvc", *ns, "-o", "wide"),
            ("logs", *ns, "-l", "app.kubernetes.io/component=download", "--prefix", "--tail=25"),
            ("get", "events", *ns, "--sort-by=.lastTimestamp"),
            ("logs", *ns, "-l", "app.kubernetes.io/component=runtime", "--all-containers", "--prefix", "--tail=25"),
        ]
        for component in ("operator", "gateway", "adapter"):
            selector = f"app.kubernetes.io/component={component}"
            looks.append(("logs", "-n", NAMESPACE, "-l", selector, "--prefix", "--tail=40"))
        return "\n".join(f"$ kubectl {' '.join(a)}\n{self.kube.kubectl(*a).text[-6000:]}" for a in looks)

    def end(self) -> None:
        """Takes everything away and waits until no pod is left, so that the next story has the machine to itself."""
        self.kube.kubectl("delete", "isvc", "--all", "-n", self.namespace, "--timeout=30s", timeout=40)
        self.kube.kubectl("delete", "namespace", self.namespace, "--wait=false")
        pods = path_of(PODS, self.namespace)
        self.kube.until(lambda: not self.kube.items(pods), pods, 60, f"the pods of {self.namespace} end")
