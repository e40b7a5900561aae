"""What Forebay's kind, its labels and its annotations are called in the Kubernetes API: one place for all programs."""

from __future__ import annotations

GROUP, VERSION, KIND, PLURAL = "forebay.dev", "v1alpha1", "InferenceService", "inferenceservices"
API_VERSION = f"{GROUP}/{VERSION}"
RESOURCES = f"/apis/{API_VERSION}/{PLURAL}"  # where those of all namespaces are listed and watched

FIELD_OWNER = "forebay-operator"  # the field manager of server-side apply
MANAGED_LABEL, MANAGED_BY = "app.kubernetes.io/managed-by", "forebay-operator"
MANAGED = f"{MANAGED_LABEL}={MANAGED_BY}"  # a selector of everything that the operator made, and of its pods
COMPONENT_LABEL, COMPONENT = "app.kubernetes.io/component", "runtime"
WORKER = "worker"  # component of pods that compute for another one, which serves
SERVICE_LABEL = f"{GROUP}/inferenceservice"
DOWNLOAD_LABEL = f"{GROUP}/download"  # of a Job's pods that bring a model into a cache: the Job's name
REVISION_LABEL = f"{GROUP}/revision"
ROTATION_LABEL, IN_ROTATION, OUT_OF_ROTATION = f"{GROUP}/rotation", "in", "out"  # whether a pod gets new requests

ORIGIN_ANNOTATION = f"{GROUP}/source"  # what a cache holds
CLAIM_ANNOTATION = f"{GROUP}/claim"  # of a Job: the UID of the claim that it fills, where the operator asked for it
INTENT_ANNOTATION = f"{GROUP}/intent"  # of a Job: a digest of all that it was made of
KEPT_ANNOTATION = f"{GROUP}/kept-for"  # of a claim that stays when nothing uses it: who asked for that
CREDENTIALS_ANNOTATION = f"{GROUP}/credentials"
DRAINING_ANNOTATION = f"{GROUP}/draining-since"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
