"""What every pod and container has: the restricted pod security standard, and a bit more."""

from __future__ import annotations

from typing import Any

USER = 65532
POD: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
CONTAINER: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
TMP = {"name": "tmp", "mountPath": "/tmp"}  # the one place where every container may write
TMP_VOLUME: dict[str, Any] = {"name": "tmp", "emptyDir": {}}
