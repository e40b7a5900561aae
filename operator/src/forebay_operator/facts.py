"""What the status says of the model and of its loading, from what pods have told; remembered by source. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from forebay_operator.observed import Observed, Pod
from forebay_operator.reports import Loading
from forebay_operator.resource import InferenceService, InvalidSpec
from forebay_operator.resource.status import LoadingStatus, ModelStatus


def origin(resource: InferenceService) -> str:
    """What the facts are about: the source with its revision, and the file in it."""
    if isinstance(resource.spec, InvalidSpec):
        return ""
    model = resource.spec.model
    return f"{model.origin} {model.file}" if model.file else model.origin


def carried(resource: InferenceService) -> ModelStatus:
    """What was told of the same source before."""
    known = resource.status.model if resource.status else None
    if known is None or known.source != origin(resource):
        return ModelStatus(name=resource.model_name, source=origin(resource))
    return known.model_copy(update={"name": resource.model_name})


class KnownModels:
    """What has been told of each source in a namespace: the next resource of that source there need not find out.

    Not beyond the namespace: a pod runs what its user chose, and what it says must not refuse another one's resource.
    """

    def __init__(self) -> None:
        self._by_source: dict[
            tuple[str, str], dict[tuple[str, str], ModelStatus]
        ] = {}  # and by who has it in its status
        self._source_of: dict[tuple[str, str], tuple[str, str]] = {}

    def heard(self, resource: InferenceService) -> None:
        self.gone(resource.key)
        model = resource.status.model if resource.status else None
        if model and model.parameters is not None and model.source == origin(resource):
            self._source_of[resource.key] = _whose(resource)
            self._by_source.setdefault(_whose(resource), {})[resource.key] = model

    def gone(self, key: tuple[str, str]) -> None:
        """What that resource alone has been told is forgotten with it."""
        if whose := self._source_of.pop(key, None):
            told = self._by_source[whose]
            del told[key]
            if not told:
                del self._by_source[whose]

    def of(self, resource: InferenceService) -> ModelStatus | None:
        """As the last resource has it that was told of."""
        told = self._by_source.get(_whose(resource)) or {}
        return told[next(reversed(told))] if told else None


def _whose(resource: InferenceService) -> tuple[str, str]:
    return resource.namespace, origin(resource)


def wanted_from(resource: InferenceService, pods: Iterable[Pod]) -> Pod | None:
    """A pod that is worth asking: it serves, and is of another revision than those that have told."""
    serving = (p for p in pods if p.ready and not p.deleting and p.ip)
    newest = max(serving, key=lambda p: p.created, default=None)
    told = carried(resource).revision
    return newest if newest and newest.revision != told else None


def model_status(resource: InferenceService, observed: Observed, revision: str) -> ModelStatus:
    """Pods of another revision than the present one may serve another model: theirs is no word about this one."""
    known, told = carried(resource), observed.footprint
    if told is None or told[0] != revision:
        return known if known.parameters is not None else _of_others(known, observed.known)
    return known.model_copy(
        update={
            "revision": told[0],
            "parameters": told[1].parameters,
            "bytes": told[1].weight_bytes,
            "context": told[1].context,
            "quantization": told[1].quantization,
            "model_context": told[1].model_context,
            "kv_bytes_per_token": told[1].kv_bytes_per_token,
            "kv_dtype": told[1].kv_dtype,
            "own_bytes": told[1].own_bytes,
        }
    )


def _of_others(mine: ModelStatus, known: ModelStatus | None) -> ModelStatus:
    """What the model is and takes; how it is served there is no word about here."""
    if known is None:
        return mine
    return known.model_copy(update={"name": mine.name, "source": mine.source, "revision": None, "context": None})


def loading_status(loading: Iterable[Loading]) -> LoadingStatus | None:
    """Of the pod that has the most before it; None while nothing is being read."""
    reading = [one for one in loading if one.total]
    last = max(reading, key=lambda one: one.total - one.bytes, default=None)
    if last is None:
        return None
    rate = int((last.bytes - last.before) / last.seconds) if last.seconds > 0 else 0
    eta = -(-(last.total - last.bytes) // rate) if rate else None
    return LoadingStatus(
        phase="Downloading" if last.downloads else "Loading",
        pod=last.pod,
        bytes=last.bytes,
        total=last.total,
        bytes_per_second=rate,
        eta_seconds=eta,
    )
