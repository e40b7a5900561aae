"""What a dead cluster leaves on the machine, found in the kernel's own tables."""

from __future__ import annotations

from pathlib import Path

from e2e.cluster.leftovers import dead_sockets, mounts_below

MOUNTS = """\
proc /proc proc rw 0 0
/dev/vda / ext4 rw 0 0
overlay /state/cluster/containerd/rootfs overlay rw 0 0
tmpfs /state/cluster/kubelet/pods/1/volumes/a\\040b tmpfs rw 0 0
nsfs /run/netns/forebay nsfs rw 0 0
nsfs /run/netns/other nsfs rw 0 0
overlay /state/cluster-of-another/rootfs overlay rw 0 0
tmpfs /state/cluster tmpfs rw 0 0
"""


def test_mounts_are_found_at_and_below_the_folders_innermost_first() -> None:
    assert mounts_below(MOUNTS, [Path("/state/cluster"), Path("/run/netns/forebay")]) == [
        "/state/cluster/kubelet/pods/1/volumes/a b",
        "/state/cluster/containerd/rootfs",
        "/run/netns/forebay",
        "/state/cluster",
    ]


def test_no_mounts_no_work() -> None:
    assert mounts_below(MOUNTS, [Path("/elsewhere")]) == []


def test_sockets_that_somebody_listens_on_are_left_alone() -> None:
    heading = "Num RefCount Protocol Flags Type St Inode Path\n"
    table = heading + "0000: 00000002 0 00010000 0001 01 5 /run/containerd/s/aa\n"
    sockets = [Path("/run/containerd/s/aa"), Path("/run/containerd/s/bb")]
    assert dead_sockets(sockets, table) == [Path("/run/containerd/s/bb")]
