"""Where objects are in the API. No I/O."""

from __future__ import annotations

from forebay_operator.api_names import API_VERSION, PLURAL
from forebay_operator.child_kinds import ALL_KINDS
from forebay_operator.cluster.names import Key
from forebay_operator.observed import Manifest

ChildId = tuple[str, str, str]  # kind, namespace, name


def resource_path(key: Key) -> str:
    return f"/apis/{API_VERSION}/namespaces/{key[0]}/{PLURAL}/{key[1]}"


def child_path(manifest: Manifest) -> str:
    return ALL_KINDS[manifest["kind"]].path(manifest["metadata"]["namespace"], manifest["metadata"]["name"])


def child_id(manifest: Manifest) -> ChildId:
    return manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"]
