"""Pushes the images, and keeps the registry of our own cluster from growing with each change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import images
from e2e.cluster.cluster import kubectl
from e2e.cluster.components import PUSH_REGISTRY
from e2e.cluster.content import OPERATOR, RUNTIME
from e2e.cluster.images import MODEL_REPOSITORY, MODEL_TAG, Builder, Wanted
from e2e.cluster.shell import Shell
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


def prune(shell: Shell, state: State, target: Target, need: Wanted, say: Callable[[str], None]) -> None:
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
    ctr = (state.bin / "ctr", "--address", state.containerd_socket, "--namespace", "k8s.io")
    pulled = shell.read(*ctr, "images", "list", "--quiet", seconds=30).split()
    if old := outdated(pulled, keep, target.registry):
        shell.run(*ctr, "images", "remove", *old, seconds=60)
