"""Why pods do not serve: the root cause, from what the kubelet, the scheduler and the API server say. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from forebay_operator.observed import Container, Download, Ended, Missing, Observed, Pod
from forebay_operator.program import FETCHER, MODEL_VOLUME
from forebay_operator.resource import Spec

PULL = {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
CREATE = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError"}
MOST_WORDS = 600
LOAD_STALLED = "loading has stalled"  # among the last words of a runtime that has read nothing for too long
DOWNLOAD_STALLED = "downloading has stalled"  # of one that got nothing; these come first, for they end like the others
NO_ROOM = "no room: "  # among those of a download that its volume cannot hold
BEFORE_THE_END, AFTER_THE_END = timedelta(seconds=60), timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Cause:
    """`reason` is one CamelCase word; `message` names the culprit."""

    reason: str
    message: str


NO_IMAGE_VOLUMES = Cause(
    "NoImageVolumes",
    "this cluster has no image volumes, which oci:// sources are mounted by: they are there from Kubernetes 1.35 on, "
    "before that with the feature gate ImageVolume; use a pvc://, hf:// or s3:// source instead",
)


def root_cause(spec: Spec, observed: Observed, revision: str) -> Cause | None:
    """Why the pods of this revision do not all serve; None while they are only on their way."""
    if missing := missing_secret(spec, observed):
        return missing
    if _image_volume_dropped(spec, observed, revision):
        return NO_IMAGE_VOLUMES
    if (words := observed.failed_creation.get(revision)) is not None:
        return _no_pods(words)
    if spec.model.cache and not observed.download.whole and (cause := _of_download(observed.download)):
        return cause
    pods = [*observed.pods_of(revision), *observed.workers_of(revision)]
    found = (_stalled(p, observed.stalled) or _of_pod(p) for p in pods if not p.ready)
    return next((c for c in found if c), None)


def _image_volume_dropped(spec: Spec, observed: Observed, revision: str) -> bool:
    """An API server that does not have them takes them out of what is applied, without a word."""
    workload = observed.workload
    ours = workload is not None and workload.revision == revision and MODEL_VOLUME not in workload.volumes
    return ours and spec.model.source.startswith("oci://")


def _of_download(download: Download) -> Cause | None:
    """Of its newest pod: an evicted one stays there beside its successor. One that runs (again) is ready: it has no
    probe that says otherwise."""
    if not download.pods and download.failed_creation:
        return _no_pods(download.failed_creation)
    newest = max((p for p in download.pods if not p.deleting), key=lambda p: p.created, default=None)
    return _of_pod(newest) if newest and not newest.ready else None


def missing_secret(spec: Spec, observed: Observed) -> Cause | None:
    """That the Secret is gone is worth a word also while pods that have read it serve: new ones could not, unless a
    cache has the model whole."""
    name = spec.model.credentials_secret
    gone = isinstance(observed.credentials, Missing) and not observed.download.whole
    return _no_secret(name) if name and gone else None


def _no_secret(name: str) -> Cause:
    return Cause("SecretMissing", f'Secret "{name}" not found: new pods cannot start until it is there')


def _no_pods(words: str) -> Cause:
    if "exceeded quota" in words:
        return Cause("QuotaExceeded", f"no pod can be made: {_short(words)}")
    return Cause("PodsRefused", f"no pod can be made: {_short(words)}")


def _of_pod(pod: Pod) -> Cause | None:
    if pod.unschedulable:
        return _unschedulable(pod)
    if pod.phase == "Failed":
        return Cause(pod.phase_reason or "PodFailed", f"pod {pod.name}: {_short(pod.phase_message or 'has failed')}")
    return _first(_of_container(pod, c) for c in pod.containers)


def suspects(pods: Iterable[Pod]) -> list[Pod]:
    """Pods whose engine has ended and may have been ended by the kubelet: its own words about them are worth a look."""
    return [p for p in pods if not p.ready and not p.deleting and any(_killed(c) for c in p.containers)]


def killed_as_stalled(pod: Pod, killings: Iterable[datetime]) -> bool:
    """Whether the last end of its engine is one of the kubelet's killings for not answering, given by their times."""
    ends = [c.ended.at for c in pod.containers if _killed(c) and c.ended and c.ended.at]
    return any(at - BEFORE_THE_END <= killed <= at + AFTER_THE_END for at in ends for killed in killings)


def _killed(container: Container) -> bool:
    return not container.init and container.ended is not None and container.ended.reason != "OOMKilled"


def _stalled(pod: Pod, stalled: frozenset[str]) -> Cause | None:
    if pod.name not in stalled:
        return None
    times = max((c.restarts for c in pod.containers if not c.init), default=0)
    said = "its engine made no progress within its budget, and is started again"
    return Cause("EngineStalled", f"pod {pod.name}: {said} (restarts so far: {times})")


def _unschedulable(pod: Pod) -> Cause:
    lacking = list(dict.fromkeys(re.findall(r"Insufficient ([\w./-]+[\w])", pod.unschedulable)))
    head = f"not enough {', '.join(lacking)} on any node" if lacking else "no node fits"
    return Cause("Unschedulable", f"pod {pod.name}: {head}: {_short(pod.unschedulable)}")


def _of_container(pod: Pod, container: Container) -> Cause | None:
    if container.waiting in PULL:
        said = container.waiting_message or f'cannot get image "{container.image}"'
        return Cause("ImagePullBackOff", f"pod {pod.name}: {container.waiting}: {_short(said)}")
    if container.waiting in CREATE:
        return _not_created(pod, container)
    if container.ended and not container.ready and (cause := _of_end(pod, container, container.ended)):
        return cause
    if (
        not container.init
        and pod.ready_changed
        and container.running_since
        and pod.ready_changed > container.running_since
    ):
        return Cause("NotAnswering", f"pod {pod.name}: container {container.name} served, and answers no more")
    return None


def _not_created(pod: Pod, container: Container) -> Cause:
    if secret := re.search(r'secret "([^"]+)" not found', container.waiting_message):
        return _no_secret(secret[1])
    return Cause(container.waiting, f"pod {pod.name}: {_short(container.waiting_message)}")


def _of_end(pod: Pod, container: Container, ended: Ended) -> Cause | None:
    if ended.reason == "OOMKilled":
        return Cause("OOMKilled", f"pod {pod.name}: container {container.name} needs more memory than its limit")
    if ended.exit_code == 0 and container.waiting != "CrashLoopBackOff":
        return None
    words = f": {_short(ended.message)}" if ended.message.strip() else " without a word"
    said = f"pod {pod.name}: container {container.name} ended with exit code {ended.exit_code}{words}"
    for stalled, reason in ((DOWNLOAD_STALLED, "DownloadStalled"), (LOAD_STALLED, "LoadStalled")):
        if stalled in ended.message:
            return Cause(reason, f"{said}; it is started again")
    if container.name != FETCHER:
        return Cause("CrashLoop", said)
    return Cause("CacheTooSmall" if NO_ROOM in ended.message and not container.init else "DownloadFailed", said)


def _first(causes: Iterable[Cause | None]) -> Cause | None:
    return next((c for c in causes if c), None)


def _short(words: str) -> str:
    """The end of it on one line: last words matter most."""
    line = " ".join(words.split())
    return line if len(line) <= MOST_WORDS else f"…{line[-MOST_WORDS:]}"
