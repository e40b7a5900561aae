"""The port. By itself, so that it is taken before anything slow is imported."""

from __future__ import annotations

import socket

from forebay_runtime.failures import StartUpError


def bind(host: str, port: int) -> socket.socket:
    """Takes the port, before a model is loaded for nothing. StartUpError if it can't be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as e:
        raise StartUpError(f"{host}:{port} can't be listened on: {e.strerror or e}") from e
    return listener
