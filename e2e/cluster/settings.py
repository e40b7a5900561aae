"""The files that the node's processes read, and the objects that the cluster starts with, as text. No I/O."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.cluster.components import CGROUP, CNI_NETWORK, DNS_IP, NODE_IP, NODE_PODS, PAUSE_IMAGE
from e2e.cluster.state import State


def files(state: State) -> dict[Path, str]:
    return {
        state.cluster / "containerd.toml": containerd(state),
        state.cluster / "kubelet.yaml": kubelet(state),
        state.cluster / "registry.yaml": registry(state),
        state.cluster / "Corefile": corefile(state),
        state.cluster / "cni/10-pods.conflist": cni(state),
    }


def containerd(state: State) -> str:
    """restrict_oom_score_adj: the machine may withhold CAP_SYS_RESOURCE, and no sandbox would start.

    Everything that containerd would put elsewhere on the machine is moved under the state, where it can be cleaned up.
    discard_unpacked_layers: a layer of gigabytes is kept once, unpacked; the registry has the packed one.
    """
    home, bins = state.cluster, state.bin
    return f"""version = 3
root = "{state.images}/containerd"
state = "{home}/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{state.containerd_socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{home}/opt"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.cri.v1.images"]
  discard_unpacked_layers = true
  use_local_image_pull = true
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{bins}"]
  conf_dir = "{home}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "{bins}/runc"
    Root = "{home}/runc"
"""


def cni(state: State) -> str:
    """ptp, not bridge: all traffic between pods is then routed, so that Services work without br_netfilter."""
    ipam = {
        "type": "host-local",
        "dataDir": str(state.cluster / "ipam"),
        "ranges": [[{"subnet": NODE_PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": ipam},
        {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": CNI_NETWORK, "plugins": plugins}, indent=2) + "\n"


def kubelet(state: State) -> str:
    """A cgroup root of our own, so that cleaning up never touches another kubelet's pods. cgroup v1 is accepted."""
    pki = state.cluster / "pki"
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{pki}/kubelet.key",
        "containerRuntimeEndpoint": f"unix://{state.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "podLogsDir": f"{state.cluster}/pod-logs",
        "volumePluginDir": f"{state.cluster}/kubelet-plugins",
        "serializeImagePulls": False,
        "maxParallelImagePulls": 3,
        # The machine's disk is the user's: pods are evicted only when it is all but full, images never by age.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }
    return json.dumps(settings, indent=2) + "\n"


def registry(state: State) -> str:
    return f"""version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {state.images}/registry}}
  delete: {{enabled: true}}
http: {{addr: ":5000"}}
"""


def corefile(state: State) -> str:
    return f""".:53 {{
  bind {NODE_IP}
  errors
  health {NODE_IP}:8080
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {state.cluster}/pki/admin.kubeconfig
  }}
  cache 5
}}
"""


def first_objects() -> str:
    """CoreDNS runs as a process of the node: the Service that pods ask is pointed at it by hand."""
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    meta = {"name": "kube-dns", "namespace": "kube-system"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"clusterIP": DNS_IP, "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**meta, "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [NODE_IP]}],
        "ports": ports,
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [service, endpoints]})
