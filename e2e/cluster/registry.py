"""Pushes the images, and keeps the registry of our own cluster from growing with each change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import images
from e2e.cluster.components import PUSH_REGISTRY, ctr, kubectl
from e2e.cluster.content import OPERATOR, RUNTIME
from e2e.cluster.images import MODEL_REPOSITORY, MODEL_TAG, Builder, Wanted
from e2e.cluster.shell import CommandError, Shell, until
from e2e.cluster.state import State, Target

GROWING = (OPERATOR.repository, RUNTIME.repository)
"""The repositories that get a new tag with each change of the code."""


@dataclass(frozen=True, slots=True)
class Push:
    local: str
    repository: str
    tag: str


def pushes(need: Wanted) -> tuple[Push, ...]:
    return (
        Push(images.image(OPERATOR, need.operator), OPERATOR.repository, need.operator.image),
        Push(images.image(RUNTIME, need.runtime), RUNTIME.repository, need.runtime.image),
        Push(need.model, MODEL_REPOSITORY, MODEL_TAG),
    )


def reference(target: Target, repository: str, tag: str) -> str:
    return f"{target.registry}/{repository}:{tag}"


def push(shell: Shell, state: State, target: Target, need: Wanted, say: Callable[[str], None]) -> str:
    builder, done = Builder(shell, state), []
    for item in pushes(need):
        if target.own and tag_folder(state, item.repository, item.tag).exists():
            continue
        say(f"pushing {item.repository}:{item.tag}")
        where = PUSH_REGISTRY if target.own else target.registry
        compression = ("--compression-format", "zstd", "--compression-level", "1")
        verify = ("--tls-verify=false",) if target.own or target.registry.startswith("localhost") else ()
        destination = f"docker://{where}/{item.repository}:{item.tag}"
        builder.run("push", *compression, *verify, item.local, destination, seconds=900)
        done.append(item.repository)
    return f"pushed {', '.join(done)}" if done else "all there"


def pull(shell: Shell, state: State, target: Target, need: Wanted, say: Callable[[str], None]) -> str:
    """Has the node pull what it lacks, by a pod that does nothing else, so that pods that matter start at once."""
    operator, runtime, model = (reference(target, item.repository, item.tag) for item in pushes(need))
    if {operator, runtime, model} <= pulled(shell, state):
        return "all on the node"
    say("unpacking them on the node")
    name = ("pod", "pull-images", "--namespace=kube-system")
    remove = ("delete", *name, "--ignore-not-found", "--grace-period=0", "--force")
    shell.run(*kubectl(state), *remove, seconds=60)
    shell.run(*kubectl(state), "create", "-f", "-", seconds=30, stdin=puller(name[1], (operator, runtime), model))
    try:
        until(
            lambda: unpulled(shell.read(*kubectl(state), "get", *name, "-o", "json", seconds=30)),
            seconds=900,
            every=0.5,
        )
    finally:
        shell.run(*kubectl(state), *remove, seconds=60)
    return "on the node"


def puller(name: str, images_: Collection[str], model: str) -> str:
    containers = [{"name": f"image-{n}", "image": image, "command": ["true"]} for n, image in enumerate(images_)]
    mount = {"volumeMounts": [{"name": "model", "mountPath": "/model"}]}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container | mount for container in containers],
        "volumes": [{"name": "model", "image": {"reference": model}}],
    }
    meta = {"name": name, "namespace": "kube-system"}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def unpulled(pod: str) -> str:
    """What the pod still waits for, empty once it is through; CommandError if it cannot end well. `pod`: as JSON."""
    status = json.loads(pod).get("status", {})
    waits = [item["state"].get("waiting", {}) for item in status.get("containerStatuses", [])]
    if status.get("phase") == "Failed" or any("Err" in wait.get("reason", "") for wait in waits):
        told = "; ".join(wait.get("message", wait.get("reason", "")) for wait in waits if wait) or status.get(
            "message", ""
        )
        raise CommandError(f"the node cannot use the images: {told or status}")
    return "" if status.get("phase") == "Succeeded" else "the node to pull the images"


def pulled(shell: Shell, state: State) -> frozenset[str]:
    return frozenset(shell.read(*ctr(state), "images", "list", "--quiet", seconds=30).split())


def tag_folder(state: State, repository: str, tag: str) -> Path:
    """A tag is written last, so its link is there only when the whole image is."""
    tags = state.images / "registry/docker/registry/v2/repositories" / repository / "_manifests/tags"
    return tags / tag / "current/link" if tag else tags


def in_use(pods: str) -> frozenset[str]:
    """Every image that a pod of the cluster names. `pods`: `kubectl get pods -A -o json`."""
    found = set()
    for pod in json.loads(pods)["items"]:
        spec = pod["spec"]
        found |= {container["image"] for container in spec["containers"] + spec.get("initContainers", [])}
        found |= {volume["image"]["reference"] for volume in spec.get("volumes", []) if "image" in volume}
    return frozenset(found)


def outdated(references: Collection[str], keep: Collection[str], registry: str) -> tuple[str, ...]:
    """Those of the growing repositories that are neither to be kept nor used by a pod."""
    prefixes = tuple(f"{registry}/{repository}:" for repository in GROWING)
    return tuple(sorted(name for name in references if name.startswith(prefixes) and name not in keep))


def unnamed(listed: str, old: Collection[str]) -> tuple[str, ...]:
    """What containerd is to forget so that `old` tags go: them, and the names by digest that would hold their layers.

    `listed`: its list of images. Names by digest of which no tag is left, from whatever time, go as well.
    """
    rows = [(words[0], words[2]) for words in map(str.split, listed.splitlines()[1:]) if len(words) > 2]
    by_digest = {name for name, _ in rows if name.startswith("sha256:") or "@sha256:" in name}
    alive = {digest for name, digest in rows if name not in by_digest and name not in old}
    return tuple(name for name, digest in rows if name in old or (name in by_digest and digest not in alive))


def prune(shell: Shell, state: State, target: Target, need: Wanted, say: Callable[[str], None]) -> str:
    """Forgets old tags in the registry and in containerd, then the blobs that only they had."""
    keep = {reference(target, item.repository, item.tag) for item in pushes(need)}
    keep |= in_use(shell.read(*kubectl(state), "get", "pods", "--all-namespaces", "-o", "json", seconds=30))
    tags = {
        reference(target, repository, folder.name): folder
        for repository in GROWING
        for folder in tag_folder(state, repository, "").glob("*")
    }
    if old := outdated(tags, keep, target.registry):
        say(f"forgetting {len(old)} old image{'s' if len(old) > 1 else ''}")
        for name in old:
            shutil.rmtree(tags[name])
        collect = (state.bin / "registry", "garbage-collect", "--delete-untagged", state.cluster / "registry.yaml")
        shell.run(*collect, seconds=300)
    listed = shell.read(*ctr(state), "images", "list", seconds=30)
    if gone := unnamed(listed, outdated(pulled(shell, state), keep, target.registry)):
        shell.run(*ctr(state), "images", "remove", "--sync", *gone, seconds=120)
    return "no old images left"
