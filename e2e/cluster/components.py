"""The node's processes and their settings, as data: (state, address of things) -> command lines and files. No I/O."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.state import State

NODE = "forebay"
NETNS = "forebay"
NETNS_FILE = Path("/run/netns") / NETNS
LINK = "forebay0"
HOST_IP = "10.243.0.1"
NODE_IP = "10.243.0.2"
PODS = "10.244.0.0/16"
NODE_PODS = "10.244.0.0/24"
SERVICES = "10.96.0.0/16"
API_IP = "10.96.0.1"
DNS_IP = "10.96.0.10"
PUSH_REGISTRY = f"{NODE_IP}:5000"
"""The registry of our own cluster, as the machine outside the node's network namespace sees it."""
CGROUP = "forebay"
PAUSE_IMAGE = "forebay.local/pause:1"
CNI_NETWORK = "forebay-pods"
GPUS = 4
"""Pretended accelerators: a node without any is given this capacity, so that GPU requests are really scheduled."""


@dataclass(frozen=True, slots=True)
class Daemon:
    name: str
    argv: tuple[str, ...]


def kubeconfig(state: State, user: str) -> str:
    return str(state.cluster / f"pki/{user}.kubeconfig")


def daemons(state: State) -> tuple[Daemon, ...]:
    """In the order in which they are started."""
    return (
        Daemon("etcd", _etcd(state)),
        Daemon("kube-apiserver", _apiserver(state)),
        Daemon("registry", (_bin(state, "registry"), "serve", str(state.cluster / "registry.yaml"))),
        Daemon("containerd", (_bin(state, "containerd"), "--config", str(state.cluster / "containerd.toml"))),
        Daemon("kube-controller-manager", _controller_manager(state)),
        Daemon("kube-scheduler", (_bin(state, "kube-scheduler"), *_auth(state, "kube-scheduler"))),
        Daemon("kubelet", _kubelet(state)),
        Daemon("kube-proxy", _proxy(state)),
        Daemon("coredns", (_bin(state, "coredns"), "-conf", str(state.cluster / "Corefile"))),
    )


def _bin(state: State, name: str) -> str:
    return str(state.bin / name)


def _etcd(state: State) -> tuple[str, ...]:
    return (
        _bin(state, "etcd"),
        f"--data-dir={state.cluster}/etcd",
        "--unsafe-no-fsync",
        "--listen-peer-urls=http://127.0.0.1:2380",
    )


def _apiserver(state: State) -> tuple[str, ...]:
    pki = state.cluster / "pki"
    return (
        _bin(state, "kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:2379",
        "--secure-port=6443",
        f"--advertise-address={NODE_IP}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        f"--service-cluster-ip-range={SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--service-account-key-file={pki}/sa.pub",
        # What the aggregation layer needs to reach a metrics adapter in a pod.
        "--enable-aggregator-routing",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
    )


def _auth(state: State, user: str) -> tuple[str, ...]:
    file = kubeconfig(state, user)
    return (
        f"--kubeconfig={file}",
        f"--authentication-kubeconfig={file}",
        f"--authorization-kubeconfig={file}",
        "--leader-elect=false",
    )


def _controller_manager(state: State) -> tuple[str, ...]:
    pki = state.cluster / "pki"
    return (
        _bin(state, "kube-controller-manager"),
        *_auth(state, "kube-controller-manager"),
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        "--allocate-node-cidrs",
        f"--cluster-cidr={PODS}",
        f"--service-cluster-ip-range={SERVICES}",
        "--horizontal-pod-autoscaler-sync-period=2s",
        # its own 20 requests a second make the garbage collector take minutes for a thousand services
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )


def _kubelet(state: State) -> tuple[str, ...]:
    return (
        _bin(state, "kubelet"),
        f"--config={state.cluster}/kubelet.yaml",
        f"--kubeconfig={kubeconfig(state, 'kubelet')}",
        f"--root-dir={state.cluster}/kubelet",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_IP}",
    )


def _proxy(state: State) -> tuple[str, ...]:
    return (
        _bin(state, "kube-proxy"),
        "--proxy-mode=nftables",
        f"--kubeconfig={kubeconfig(state, 'kube-proxy')}",
        f"--hostname-override={NODE}",
        f"--cluster-cidr={PODS}",
        "--conntrack-max-per-core=0",
    )


def kubectl(state: State) -> tuple[str, ...]:
    return (str(state.bin / "kubectl"), f"--kubeconfig={state.kubeconfig}")


def ctr(state: State) -> tuple[str, ...]:
    """containerd's own client, on what the kubelet sees."""
    return (str(state.bin / "ctr"), f"--address={state.containerd_socket}", "--namespace=k8s.io")


def key(state: State, binaries: str, files: dict[Path, str]) -> str:
    """Changes whenever a running cluster would no longer be the one described here. `binaries`: their own key."""
    parts = [binaries, *(" ".join(daemon.argv) for daemon in daemons(state))]
    parts += [f"{path}\n{text}" for path, text in sorted(files.items())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
