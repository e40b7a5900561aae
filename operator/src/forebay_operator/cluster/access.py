"""Where the API server is, and how to log in to it: read by the official client, whatever ways a kubeconfig names."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from forebay_operator.api_server import ApiServer

TOKEN = "BearerToken"


class AccessError(Exception):
    """No API server can be reached by what was given; the message says why."""


@dataclass(frozen=True, slots=True)
class Access:
    """The way to the API server, for whoever talks to it. Files are paths; `authorization` gives the next request's
    header: tokens are renewed, on disk or by whoever gives them."""

    url: str
    authorization: Callable[[], str | None]
    ca_file: str | None
    certificate_file: str | None
    key_file: str | None
    verify: bool

    def api_server(self) -> ApiServer:
        return ApiServer(self.url, self.authorization, self._tls() if self.url.startswith("https:") else None)

    def _tls(self) -> ssl.SSLContext:
        found = ssl.create_default_context(cafile=self.ca_file)
        if not self.verify:
            found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
        if self.certificate_file:
            found.load_cert_chain(self.certificate_file, self.key_file)
        return found


def access(kubeconfig: str | None = None) -> Access:
    """As the file says, or KUBECONFIG's files, by the current context; without either as the pod's service account."""
    found = Configuration()
    try:
        if kubeconfig is None and "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(client_configuration=found)
        else:
            load_kube_config(config_file=kubeconfig, client_configuration=found)
    except (ConfigException, OSError) as e:
        raise AccessError(str(e)) from e

    def authorization() -> str | None:
        token: str | None = found.get_api_key_with_prefix(TOKEN, "authorization")
        return token

    return Access(found.host, authorization, found.ssl_ca_cert, found.cert_file, found.key_file, found.verify_ssl)
