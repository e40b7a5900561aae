"""The cluster's certificate authority, the certificates of its components and their kubeconfigs."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.components import API_IP, NODE, NODE_IP
from e2e.cluster.shell import Shell

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
NAMES = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]


@dataclass(frozen=True, slots=True)
class Certificate:
    file: str
    subject: str
    names: tuple[str, ...] = ()


SERVING = (
    Certificate(
        "apiserver",
        "/CN=kube-apiserver",
        (*(f"DNS:{name}" for name in NAMES), "IP:127.0.0.1", f"IP:{NODE_IP}", f"IP:{API_IP}"),
    ),
    Certificate("kubelet", f"/CN={NODE}", (f"DNS:{NODE}", f"IP:{NODE_IP}")),
    Certificate("apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet"),
    Certificate("front-proxy", "/CN=front-proxy-client"),
)
USERS = (
    Certificate("admin", "/O=system:masters/CN=admin"),
    Certificate("kubelet-client", f"/O=system:nodes/CN=system:node:{NODE}"),
    Certificate("kube-controller-manager", "/CN=system:kube-controller-manager"),
    Certificate("kube-scheduler", "/CN=system:kube-scheduler"),
    Certificate("kube-proxy", "/CN=system:kube-proxy"),
)


def make(shell: Shell, pki: Path) -> None:
    pki.mkdir(parents=True, mode=0o700)
    ca = ("-x509", *CURVE, "-keyout", "ca.key", "-out", "ca.crt", "-days", "3650", "-subj", "/CN=forebay-ca")
    shell.run("openssl", "req", *ca, seconds=20, cwd=pki)
    for certificate in SERVING + USERS:
        sign(shell, pki, certificate)
    shell.run("openssl", "genrsa", "-out", "sa.key", "2048", seconds=30, cwd=pki)
    shell.run("openssl", "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub", seconds=20, cwd=pki)
    for user in USERS:
        name = user.file.removesuffix("-client")
        (pki / f"{name}.kubeconfig").write_text(kubeconfig(pki, user.file))


def sign(shell: Shell, pki: Path, certificate: Certificate) -> None:
    name, days = certificate.file, "3650"
    extension = f"subjectAltName={','.join(certificate.names)}" if certificate.names else "basicConstraints=CA:FALSE"
    (pki / f"{name}.ext").write_text(extension + "\n")
    request = (*CURVE, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", certificate.subject)
    shell.run("openssl", "req", *request, seconds=20, cwd=pki)
    authority = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", days)
    files = ("-in", f"{name}.csr", "-out", f"{name}.crt", "-extfile", f"{name}.ext")
    shell.run("openssl", "x509", "-req", *files, *authority, seconds=20, cwd=pki)


def kubeconfig(pki: Path, file: str) -> str:
    """Holds the keys themselves, so that the one file can be copied."""

    def data(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    cluster = {"server": f"https://{NODE_IP}:6443", "certificate-authority-data": data("ca.crt")}
    user = {"client-certificate-data": data(f"{file}.crt"), "client-key-data": data(f"{file}.key")}
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "forebay", "cluster": cluster}],
        "users": [{"name": file, "user": user}],
        "contexts": [{"name": "forebay", "context": {"cluster": "forebay", "user": file}}],
        "current-context": "forebay",
    }
    return json.dumps(whole, indent=2) + "\n"
