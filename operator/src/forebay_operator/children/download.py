"""The cache of a model: the claim, and the Job that fills it. All resources of a source in a namespace share both."""

from __future__ import annotations

from typing import Any

from forebay_operator.api_names import (
    CLAIM_ANNOTATION,
    COMPONENT_LABEL,
    DOWNLOAD_LABEL,
    INTENT_ANNOTATION,
    KEPT_ANNOTATION,
    MANAGED_BY,
    MANAGED_LABEL,
    ORIGIN_ANNOTATION,
)
from forebay_operator.child_kinds import SHARED_KINDS
from forebay_operator.children import restricted
from forebay_operator.children.metadata import labels, owner
from forebay_operator.children.model_source import fetcher
from forebay_operator.config import Config
from forebay_operator.drift import digest
from forebay_operator.observed import Manifest, accelerators
from forebay_operator.program import PORT, fetch_arguments
from forebay_operator.quantity import whole
from forebay_operator.resource import InferenceService, Spec

DIRECTORY = "/cache"
WITHOUT_END = 2**31 - 1  # tries: each goes on where the one before ended, later and later
# A download computes little and holds no accelerator. Limits, because a quota of limits refuses pods without.
RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


def folder(spec: Spec) -> str:
    """Where in the volume the model lies: a claim of the user's may hold many."""
    return digest(spec.model.origin)[:10]


def claim_name(spec: Spec) -> str:
    cache = spec.model.cache
    return cache.claim if cache and cache.claim else f"model-{folder(spec)}"


def job_name(spec: Spec) -> str:
    return f"download-{digest([spec.model.origin, claim_name(spec)])[:10]}"


def names(spec: Spec) -> tuple[str, ...]:
    """Of the Job and the claim that the resource has a share in."""
    return (job_name(spec), claim_name(spec)) if spec.model.cache else ()


def claim(resource: InferenceService, spec: Spec) -> Manifest | None:
    """None where the user has one."""
    cache = spec.model.cache
    if cache is None or cache.size is None:
        return None
    kept = not cache.delete_when_unused
    made = _shared("PersistentVolumeClaim", claim_name(spec), resource, spec, "model-cache")
    if kept:
        del made["metadata"]["ownerReferences"]
        made["metadata"]["annotations"][KEPT_ANNOTATION] = resource.name
    made["spec"] = {
        "accessModes": [cache.access_mode or "ReadWriteOnce"],
        "resources": {"requests": {"storage": cache.size}},
        **({"storageClassName": cache.storage_class} if cache.storage_class else {}),
    }
    return made


def job(resource: InferenceService, spec: Spec, config: Config, claim: Manifest | None) -> Manifest:
    """`claim` as it is there; None where it is the user's, or not there yet."""
    made = _shared("Job", job_name(spec), resource, spec, "download")
    made["spec"] = {
        "backoffLimit": WITHOUT_END,
        "podReplacementPolicy": "Failed",  # never two that write to one folder
        "template": {
            "metadata": {
                "labels": {
                    MANAGED_LABEL: MANAGED_BY,
                    COMPONENT_LABEL: "download",
                    DOWNLOAD_LABEL: job_name(spec),
                }
            },
            "spec": _pod(spec, config, claim),
        },
    }
    uid = claim["metadata"]["uid"] if claim else ""
    made["metadata"]["annotations"] |= {CLAIM_ANNOTATION: uid, INTENT_ANNOTATION: digest(made["spec"])}
    return made


def _pod(spec: Spec, config: Config, claim: Manifest | None) -> Manifest:
    """It is placed where the pods that serve may be, for a volume may be of one node or zone. It may bring what the
    claim has been asked to hold, whoever asked for that."""
    more = spec.pod_template
    most = whole(str(claim["spec"]["resources"]["requests"]["storage"])) if claim else None
    arguments = fetch_arguments(spec.model.origin, f"{DIRECTORY}/{folder(spec)}", most)
    container = fetcher(spec, config, arguments, {"name": "cache", "mountPath": DIRECTORY}, RESOURCES)
    optional = {
        "imagePullSecrets": [{"name": s.name} for s in more.image_pull_secrets],
        "tolerations": [
            *(t.model_dump(by_alias=True, exclude_none=True) for t in more.tolerations),
            *({"key": device, "operator": "Exists", "effect": "NoSchedule"} for device in _devices(spec)),
        ],
        "nodeSelector": more.node_selector,
        "priorityClassName": more.priority_class_name,
        "serviceAccountName": more.service_account_name,
    }
    return {
        **restricted.POD,
        "restartPolicy": "OnFailure",
        "containers": [{**container, "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}]}],
        "volumes": [
            {"name": "cache", "persistentVolumeClaim": {"claimName": claim_name(spec)}},
            restricted.TMP_VOLUME,
        ],
        **{k: v for k, v in optional.items() if v},
    }


def _devices(spec: Spec) -> list[str]:
    """Their nodes may be closed to pods that ask for none."""
    asked = {"resources": {"requests": spec.resources.requests, "limits": spec.resources.limits}}
    return sorted(accelerators([asked]))


def _shared(kind: str, name: str, resource: InferenceService, spec: Spec, component: str) -> Manifest:
    return {
        "apiVersion": SHARED_KINDS[kind].api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": resource.namespace,
            "labels": labels(resource.name, component),
            "annotations": {ORIGIN_ANNOTATION: spec.model.origin},
            "ownerReferences": [_one_of_the_owners(resource)],
        },
    }


def _one_of_the_owners(resource: InferenceService) -> dict[str, Any]:
    return {k: v for k, v in owner(resource).items() if k not in ("controller", "blockOwnerDeletion")}
