"""What a resource's cache needs now, and whether its pods wait for it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from forebay_operator import downloads
from forebay_operator.children import download
from forebay_operator.config import Config
from forebay_operator.downloads import Act
from forebay_operator.observed import Manifest, Observed
from forebay_operator.resource import InferenceService, Spec


@dataclass(frozen=True, slots=True)
class Cached:
    """`awaited`: the claim on which the model has to be whole before pods of the revision start; empty when they may.
    `unfinished`: there is more to do as soon as `acts` are done."""

    acts: tuple[Act, ...]
    awaited: str
    unfinished: bool


def cached(resource: InferenceService, spec: Spec, observed: Observed, config: Config, revision: str) -> Cached:
    """What the resource used before is let go of when all its pods are of the present revision."""
    seen, workload = observed.download, observed.workload
    there = workload is not None and workload.revision == revision
    acts: tuple[Act, ...] = ()
    if spec.model.cache:
        job = download.job(resource, spec, config, seen.claim)
        acts = downloads.acts(seen, download.claim(resource, spec), job, resource)
    if there and all(p.revision == revision for p in observed.pods):
        acts += downloads.releases(observed.shares, download.names(spec), resource)
    awaits = spec.model.cache is not None and not there and not seen.whole
    return Cached(acts, download.claim_name(spec) if awaits else "", downloads.unfinished(acts, seen))


def as_it_is(workload: Manifest, observed: Observed) -> Manifest | None:
    """The workload with the pods that it has, while those of its next revision wait for their model."""
    live = observed.children.get(workload["kind"])
    return live and {**workload, "spec": live["spec"]}
