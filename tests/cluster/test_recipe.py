"""What the cluster is made from: programs, settings, tools, and where it is installed."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from e2e.cluster import binaries, components, pause, settings
from e2e.cluster.binaries import PROGRAMS, Program, stale
from e2e.cluster.images import pip_conf
from e2e.cluster.registry import in_use, outdated, unnamed, unpulled
from e2e.cluster.shell import CommandError
from e2e.cluster.state import OWN_REGISTRY, SetupError, State, target_of
from e2e.cluster.tools import FILES, missing_packages
from e2e.cluster.tools import PROGRAMS as TOOLS

STATE = State(Path("/state"))
OURS, THEIRS = Program(("kube",), (".",), "kube", links=("etcd", "kubelet")), Program(("runc",), ("x/runc@v1",))
SOURCE = {"kube/main.go": b"package main", "services/go.mod": b"module services"}
BUILT = {program.names[0]: binaries.key(program, SOURCE) for program in (OURS, THEIRS)}
THERE = frozenset({"kube", "etcd", "kubelet", "runc"})


def test_nothing_is_stale_when_all_was_built_from_this() -> None:
    assert stale((OURS, THEIRS), SOURCE, BUILT, THERE) == ()


@pytest.mark.parametrize(
    ("source", "built", "there", "expected"),
    [
        (SOURCE, {}, frozenset[str](), (OURS, THEIRS)),
        (SOURCE, BUILT, THERE - {"runc"}, (THEIRS,)),
        (SOURCE, BUILT, THERE - {"kubelet"}, (OURS,)),
        (SOURCE | {"kube/main.go": b"package other"}, BUILT, THERE, (OURS,)),
        (SOURCE | {"services/go.mod": b"module other"}, BUILT, THERE, ()),
        (SOURCE, BUILT | {"runc": "older"}, THERE, (THEIRS,)),
    ],
    ids=["empty", "program gone", "link gone", "source changed", "another module changed", "version changed"],
)
def test_only_what_has_changed_is_built(
    source: dict[str, bytes], built: dict[str, str], there: frozenset[str], expected: tuple[Program, ...]
) -> None:
    assert stale((OURS, THEIRS), source, built, there) == expected


def test_every_daemon_is_one_of_the_programs() -> None:
    made = {name for program in PROGRAMS for name in program.names + program.links}
    assert {daemon.name for daemon in components.daemons(STATE)} <= made


def test_a_changed_setting_changes_the_clusters_key() -> None:
    files = settings.files(STATE)
    path = next(iter(files))
    same, other = components.key(STATE, "b1", files), components.key(STATE, "b1", files | {path: files[path] + "\n"})
    assert same == components.key(STATE, "b1", settings.files(STATE))
    assert len({same, other, components.key(STATE, "b2", files)}) == 3


def test_everything_that_the_node_writes_lies_in_the_state() -> None:
    for text in settings.files(STATE).values():
        for word in ("/var/lib", "/run/containerd", "/etc/cni", "/opt/cni"):
            assert word not in text


def test_settings_are_what_their_readers_take() -> None:
    assert json.loads(settings.kubelet(STATE))["cgroupRoot"] == "/forebay"
    assert [plugin["type"] for plugin in json.loads(settings.cni(STATE))["plugins"]] == ["ptp", "portmap"]
    assert len(json.loads(settings.first_objects())["items"]) == 2


def test_the_pause_archive_holds_what_its_index_names(tmp_path: Path) -> None:
    program, archive = tmp_path / "pause", tmp_path / "pause.tar"
    program.write_bytes(b"\x7fELF")
    pause.write_archive(program, archive)
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        read = {name: file.read() for name, file in files.items() if file}
    entry = json.loads(read["index.json"])["manifests"][0]
    assert entry["annotations"]["io.containerd.image.name"] == components.PAUSE_IMAGE
    manifest = json.loads(read["blobs/sha256/" + entry["digest"][7:]])
    for part in (manifest["config"], *manifest["layers"]):
        assert pause.digest(read["blobs/sha256/" + part["digest"][7:]]) == part["digest"]


def test_only_missing_packages_are_installed() -> None:
    assert missing_packages(lambda _: True, lambda _: True) == ()
    assert missing_packages(lambda program: program != "nft", lambda _: True) == ("nftables",)
    assert set(missing_packages(lambda _: False, lambda _: False)) == {*TOOLS.values(), *FILES.values()}


def test_our_own_cluster_is_the_target_unless_the_user_names_another() -> None:
    assert target_of({}, STATE).own
    assert target_of({"KUBECONFIG": str(STATE.kubeconfig)}, STATE).registry == OWN_REGISTRY
    theirs = target_of({"KUBECONFIG": "/home/me/config", "REGISTRY": "registry.example/team/"}, STATE)
    assert (theirs.own, str(theirs.kubeconfig), theirs.registry) == (False, "/home/me/config", "registry.example/team")


def test_a_cluster_of_the_users_needs_a_registry() -> None:
    with pytest.raises(SetupError, match="REGISTRY"):
        target_of({"KUBECONFIG": "/home/me/config"}, STATE)


def test_images_of_pods_and_of_this_checkout_are_kept() -> None:
    volumes = [{"image": {"reference": "r/models/m:1"}}, {"emptyDir": {}}]
    containers = {
        "containers": [{"image": "r/forebay-runtime:used"}],
        "initContainers": [{"image": "r/forebay-runtime:i"}],
    }
    pods = {"items": [{"spec": {**containers, "volumes": volumes}}, {"spec": {"containers": []}}]}
    used = in_use(json.dumps(pods))
    assert used == {"r/forebay-runtime:used", "r/forebay-runtime:i", "r/models/m:1"}
    there = ["r/forebay-runtime:old", "r/forebay-runtime:used", "r/forebay-runtime:new", "r/models/m:0", "s/else:1"]
    assert outdated(there, used | {"r/forebay-runtime:new"}, "r") == ("r/forebay-runtime:old",)


def test_only_what_a_build_can_use_of_pips_settings_goes_in() -> None:
    text = pip_conf({"index-url": "https://index.example/simple", "find-links": "/opt/wheels", "cert": "/etc/x.crt"})
    assert text.splitlines() == ["[global]", "cert = /run/secrets/ca.crt", "index-url = https://index.example/simple"]


def test_containerd_forgets_an_old_image_by_all_its_names() -> None:
    rows = [
        ("r/a:new", "sha256:2"),
        ("r/a:old", "sha256:1"),
        ("r/a@sha256:1", "sha256:1"),
        ("r/a@sha256:2", "sha256:2"),
    ]
    rows += [("sha256:c1", "sha256:1"), ("sha256:c2", "sha256:2"), ("sha256:c0", "sha256:0"), ("pause:1", "sha256:3")]
    listed = "\n".join(["REF TYPE DIGEST SIZE", *(f"{name} application/oci {digest} 1 MiB" for name, digest in rows)])
    assert unnamed(listed, ["r/a:old"]) == ("r/a:old", "r/a@sha256:1", "sha256:c1", "sha256:c0")


def pod(phase: str, **waiting: str) -> str:
    return json.dumps(
        {"status": {"phase": phase, "containerStatuses": [{"state": {"waiting": waiting}}, {"state": {}}]}}
    )


def test_the_pulling_pod_is_waited_for() -> None:
    assert unpulled(json.dumps({"metadata": {}}))
    assert unpulled(pod("Pending", reason="ContainerCreating"))
    assert unpulled(pod("Succeeded")) == ""


@pytest.mark.parametrize("seen", [pod("Pending", reason="ErrImagePull", message="no such tag"), pod("Failed")])
def test_an_image_that_cannot_be_pulled_ends_the_wait(seen: str) -> None:
    with pytest.raises(CommandError, match="cannot use the images"):
        unpulled(seen)
