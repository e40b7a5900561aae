"""The LeaderWorkerSet: replicas of several pods, of which the first serves. https://lws.sigs.k8s.io, API v1.

Its controller makes a headless Service of the set's own name, so that name must not be that of the Service.
"""

from __future__ import annotations

from forebay_operator.children.deployment import template
from forebay_operator.children.metadata import child
from forebay_operator.config import Config
from forebay_operator.observed import Manifest
from forebay_operator.program import Program
from forebay_operator.resource import InferenceService, Spec


def leader_worker_set(
    resource: InferenceService, spec: Spec, program: Program, config: Config, credentials: str
) -> Manifest:
    """A pod that ends takes its whole group along: none of them can go on with a new one."""
    return child(
        "LeaderWorkerSet",
        resource,
        spec={
            "replicas": spec.replicas,
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "Shared"},
            "leaderWorkerTemplate": {
                "size": spec.engine.parallelism.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template(resource, spec, program, config, credentials),
                "workerTemplate": template(resource, spec, program, config, credentials, worker=True),
            },
        },
    )
