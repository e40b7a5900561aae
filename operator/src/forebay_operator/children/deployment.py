"""The Deployment: pods of one revision, under restricted pod security, that drain before they go."""

from __future__ import annotations

from typing import Any

from forebay_operator.api_names import CREDENTIALS_ANNOTATION, IN_ROTATION, ROTATION_LABEL, WORKER
from forebay_operator.children import restricted
from forebay_operator.children.download import claim_name, folder
from forebay_operator.children.metadata import child, labels, selector
from forebay_operator.children.model_source import fetcher, parse_source
from forebay_operator.config import Config
from forebay_operator.observed import Manifest
from forebay_operator.program import (
    GATE,
    GATE_PATH,
    GATE_PORT,
    MODEL_DIRECTORY,
    MODEL_VOLUME,
    PORT,
    PROXY_SECONDS,
    Program,
    fetch_arguments,
)
from forebay_operator.resource import InferenceService, Spec

CONTAINER = "runtime"
END_SECONDS = 2  # what is left of the grace for the process to end after its last request
# of its own all that it may use: a pod may be Guaranteed with it, and is allowed where a quota asks for limits
GATE_RESOURCES = {"cpu": "250m", "memory": "128Mi"}
SHM = {"name": "shm", "mountPath": "/dev/shm"}


def drain_seconds(spec: Spec) -> int:
    """How long the engine may go on with the requests it has, once it is told to end."""
    return spec.pod_template.termination_grace_period_seconds - PROXY_SECONDS - END_SECONDS


def deployment(resource: InferenceService, spec: Spec, program: Program, config: Config, credentials: str) -> Manifest:
    """`credentials` stands for the contents of the Secret that the spec names: it is in the pods' template, so that
    other contents make other pods."""
    return child(
        "Deployment",
        resource,
        spec={
            "replicas": spec.replicas,
            "paused": False,
            "progressDeadlineSeconds": spec.rollout.progress_deadline_seconds,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector(resource.name)},
            "template": template(resource, spec, program, config, credentials),
        },
    )


def template(
    resource: InferenceService, spec: Spec, program: Program, config: Config, credentials: str, *, worker: bool = False
) -> Manifest:
    """Of the pods that serve, or of those that compute for one that does."""
    more = spec.pod_template
    annotations = more.annotations | ({CREDENTIALS_ANNOTATION: credentials} if credentials else {})
    own = labels(resource.name, WORKER) if worker else labels(resource.name) | {ROTATION_LABEL: IN_ROTATION}
    about = {"labels": more.labels | own, **({"annotations": annotations} if annotations else {})}
    pod = _pod(spec, program, config)
    if worker:  # its end is that of the pod that serves; it has no port, so nothing to ask
        (container,) = pod["containers"]
        for name in ("ports", "lifecycle", *program.probes):
            del container[name]
        pod |= {"containers": [container | {"args": list(program.join)}]}
    return {"metadata": about, "spec": pod}


def _pod(spec: Spec, program: Program, config: Config) -> Manifest:
    more, source = spec.pod_template, parse_source(spec.model.source)
    pull_secrets = [s.name for s in more.image_pull_secrets]
    if source.scheme == "oci" and spec.model.credentials_secret:
        pull_secrets.append(spec.model.credentials_secret)
    optional = {
        "initContainers": [
            *([_fetcher(spec, config)] if source.remote and not spec.model.cache else []),
            *([_gate(program, config)] if program.held_back_by else []),
        ],
        "imagePullSecrets": [{"name": n} for n in dict.fromkeys(pull_secrets)],
        "tolerations": [t.model_dump(by_alias=True, exclude_none=True) for t in more.tolerations],
        "nodeSelector": more.node_selector,
        "priorityClassName": more.priority_class_name,
        "runtimeClassName": more.runtime_class_name,
        "serviceAccountName": more.service_account_name,
    }
    return {
        **restricted.POD,
        "terminationGracePeriodSeconds": more.termination_grace_period_seconds,
        "containers": [_runtime(spec, program, config)],
        "volumes": [
            {"name": MODEL_VOLUME, **_volume(spec)},
            restricted.TMP_VOLUME,
            *([{"name": "shm", "emptyDir": {"medium": "Memory"}}] if program.shared_memory else []),
        ],
        **{k: v for k, v in optional.items() if v},
    }


def _volume(spec: Spec) -> dict[str, Any]:
    source = parse_source(spec.model.source)
    if source.scheme == "oci":
        return {"image": {"reference": source.reference, "pullPolicy": "IfNotPresent"}}
    if source.scheme == "pvc" or spec.model.cache:
        claim = source.reference if source.scheme == "pvc" else claim_name(spec)
        return {"persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
    return {"emptyDir": {}}


def _runtime(spec: Spec, program: Program, config: Config) -> Manifest:
    path = folder(spec) if spec.model.cache else parse_source(spec.model.source).path
    model = {"name": MODEL_VOLUME, "mountPath": MODEL_DIRECTORY, "readOnly": True}
    own = {e.name for e in spec.engine.env}
    needed = [{"name": n, "value": v} for n, v in program.env.items() if n not in own]
    common = _common(spec)
    return {
        "name": CONTAINER,
        "image": spec.engine.image or config.image(spec.engine.type),
        "imagePullPolicy": config.image_pull_policy,
        "command": list(program.command),
        **common,
        "env": [*needed, *common["env"]],
        "args": list(program.serve),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "volumeMounts": [
            model | ({"subPath": path} if path else {}),
            restricted.TMP,
            *([SHM] if program.shared_memory else []),
        ],
        "lifecycle": {"preStop": _pre_stop(program)},
        **program.probes,
    }


def _fetcher(spec: Spec, config: Config) -> Manifest:
    """The init container: each pod downloads its own."""
    mount = {"name": MODEL_VOLUME, "mountPath": MODEL_DIRECTORY}
    return fetcher(spec, config, fetch_arguments(spec.model.origin), mount, _common(spec)["resources"])


def _pre_stop(program: Program) -> dict[str, Any]:
    if program.held_back_by:
        return {"httpGet": {"path": GATE_PATH, "port": GATE_PORT}}
    return {"sleep": {"seconds": PROXY_SECONDS}}


def _gate(program: Program, config: Config) -> Manifest:
    """A sidecar (an init container that stays, Kubernetes 1.29), so that it ends after the engine. It has to listen
    before the engine begins: a hook that finds nobody is over at once, and the engine's requests are cut off."""
    return {
        "name": GATE,
        "image": config.own_image,
        "imagePullPolicy": config.image_pull_policy,
        "command": ["forebay", "drain-gate"],
        "args": [f"--metric={name}" for name in program.held_back_by],
        "restartPolicy": "Always",
        "startupProbe": {"tcpSocket": {"port": GATE_PORT}, "periodSeconds": 1, "failureThreshold": 120},
        "resources": {"requests": GATE_RESOURCES, "limits": GATE_RESOURCES},
        "securityContext": restricted.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _common(spec: Spec) -> Manifest:
    resources = {k: v for k, v in (("requests", spec.resources.requests), ("limits", spec.resources.limits)) if v}
    return {
        "env": [{"name": e.name, "value": e.value} for e in spec.engine.env],
        "resources": resources,
        "securityContext": restricted.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
