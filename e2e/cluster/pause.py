"""The image of a pod's first process, as an archive that containerd imports: no builder and no registry needed."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

from e2e.cluster.components import PAUSE_IMAGE


def write_archive(program: Path, archive: Path) -> None:
    layer = tar({"pause": (program.read_bytes(), 0o755)})
    config = {
        "architecture": {"aarch64": "arm64"}.get(platform.machine(), "amd64"),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    encoded = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", encoded),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    }
    listed = json.dumps(manifest).encode()
    entry = descriptor("application/vnd.oci.image.manifest.v1+json", listed)
    entry["annotations"] = {"io.containerd.image.name": PAUSE_IMAGE, "org.opencontainers.image.ref.name": "1"}
    index = {"schemaVersion": 2, "manifests": [entry]}
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
    files |= {f"blobs/sha256/{digest(blob)[7:]}": blob for blob in (layer, encoded, listed)}
    archive.write_bytes(tar({name: (content, 0o644) for name, content in files.items()}))


def digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}


def tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, (content, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return whole.getvalue()
