"""The gateway's address from here: its cluster IP where that is routed, else through `kubectl port-forward`."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator

from e2e.kube import Kube, path_of, tool

NAMESPACE = os.environ.get("FOREBAY_NAMESPACE", "forebay-system")
NAME = "forebay-gateway"


def _reachable(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=2):
        return True
    return False


@contextlib.contextmanager
def gateway_url(kube: Kube) -> Iterator[str]:
    """Yields the address; FOREBAY_GATEWAY overrules what is found."""
    if given := os.environ.get("FOREBAY_GATEWAY"):
        yield given.rstrip("/")
        return
    service = kube.get(path_of("v1/services", NAMESPACE, NAME))
    assert service, (
        f"no Service {NAME} in {NAMESPACE}: `make up` installs the chart (FOREBAY_NAMESPACE for another place)"
    )
    address, port = service["spec"]["clusterIP"], service["spec"]["ports"][0]["port"]
    if _reachable(address, port):
        yield f"http://{address}:{port}"
        return
    with port_forward(f"service/{NAME}", port) as local:
        yield local


@contextlib.contextmanager
def port_forward(target: str, port: int) -> Iterator[str]:
    command = [tool("kubectl"), "port-forward", "-n", NAMESPACE, target, f":{port}", "--address=127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "127.0.0.1:" in line, f"{' '.join(command)}: {line}"
        yield "http://127.0.0.1:" + line.split("127.0.0.1:")[1].split(" ")[0]
    finally:
        process.terminate()
        process.communicate(timeout=10)
