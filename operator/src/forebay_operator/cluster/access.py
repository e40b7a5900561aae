"""Where the API server is, and how to log in to it: read by the official client, whatever ways a kubeconfig names."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable

from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from forebay_operator.informer import ApiServer

TOKEN = "BearerToken"


class AccessError(Exception):
    """No API server can be reached by what was given; the message says why."""


def api_server(kubeconfig: str | None = None) -> ApiServer:
    """As the file says, or KUBECONFIG's, by its current context; without either as the pod's service account."""
    found = Configuration()
    try:
        if kubeconfig is None and "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(client_configuration=found)
        else:
            load_kube_config(config_file=kubeconfig, client_configuration=found)
    except (ConfigException, OSError) as e:
        raise AccessError(str(e)) from e
    return ApiServer(found.host, _authorization(found), _tls(found) if found.host.startswith("https:") else None)


def _authorization(access: Configuration) -> Callable[[], str | None]:
    """The header of the next request: tokens are renewed, on disk or by whoever gives them."""

    def header() -> str | None:
        token: str | None = access.get_api_key_with_prefix(TOKEN, "authorization")
        return token

    return header


def _tls(access: Configuration) -> ssl.SSLContext:
    found = ssl.create_default_context(cafile=access.ssl_ca_cert)
    if not access.verify_ssl:
        found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    if access.cert_file:
        found.load_cert_chain(access.cert_file, access.key_file)
    return found
