"""The API server that a kubeconfig file names, for a program that runs outside the cluster."""

from __future__ import annotations

import base64
import pathlib
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

import yaml

from forebay_operator.informer import ApiServer

UNDERSTOOD = {"client-certificate", "client-certificate-data", "client-key", "client-key-data", "tokenFile"}


class KubeconfigError(Exception):
    """The file does not lead to an API server; the message says why."""


def api_server(path: pathlib.Path) -> ApiServer:
    """By the file's current context. A user is a client certificate or a token file; other ways are refused by name."""
    try:
        document = yaml.safe_load(path.read_text())
        context = _named(document["contexts"], document["current-context"])["context"]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"] or {}
        url = cluster["server"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as e:
        raise KubeconfigError(f"{path}: {e!r}") from e
    if unknown := sorted(set(user) - UNDERSTOOD):
        raise KubeconfigError(f"{path}: cannot log in by {', '.join(unknown)}: give a client certificate or tokenFile")
    token = pathlib.Path(user["tokenFile"]) if "tokenFile" in user else None
    return ApiServer(url, token, _tls(cluster, user) if url.startswith("https:") else None)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    found = next((e for e in entries if e["name"] == name), None)
    if found is None:
        raise KeyError(name)
    return found


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    if authority := cluster.get("certificate-authority-data"):
        found = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    else:
        found = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if "client-certificate" in user:
        found.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:  # the ssl module reads key pairs from files alone
            pair.write(b"".join(base64.b64decode(user[k]) for k in ("client-certificate-data", "client-key-data")))
            pair.flush()
            found.load_cert_chain(pair.name)
    return found
