"""kopf wiring alone: who wakes whom. Every pass is in reconcile.py; kopf keeps no state, annotation or finalizer."""

from __future__ import annotations

import argparse
import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from forebay_operator import probes
from forebay_operator.children.metadata import MANAGED_BY, MANAGED_LABEL
from forebay_operator.cluster import Api, LiveCluster
from forebay_operator.config import Config
from forebay_operator.observed import CHILD_KINDS, SERVICE_LABEL
from forebay_operator.reconcile import reconcile
from forebay_operator.refusal import ApiError
from forebay_operator.resource import GROUP, KIND, PLURAL, VERSION, parse
from forebay_operator.work_queue import Key, WorkQueue

log = logging.getLogger(__name__)
WATCHED = [(k.group, k.version, k.plural) for k in CHILD_KINDS.values()]
WATCHED += [("apps", "v1", "replicasets"), ("", "v1", "pods")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime-image", required=True, help="image of the pods that serve, where the spec names none"
    )
    parser.add_argument("--image-pull-policy", default="IfNotPresent", choices=["Always", "IfNotPresent", "Never"])
    parser.add_argument("--service-account", default="", metavar="NAMESPACE/NAME", help="the operator's own account")
    parser.add_argument("--credentials-role", default="", help="ClusterRole that it binds to itself to read Secrets")
    parser.add_argument(
        "--resync-seconds", type=float, default=300, help="longest time between two looks at a resource"
    )
    parser.add_argument("--port", type=int, default=8080, help="port of /healthz and /metrics")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def run(arguments: argparse.Namespace) -> None:
    logging.basicConfig(
        level=arguments.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
    config = Config(
        runtime_image=arguments.runtime_image,
        image_pull_policy=arguments.image_pull_policy,
        service_account=arguments.service_account,
        credentials_role=arguments.credentials_role,
        resync=timedelta(seconds=arguments.resync_seconds),
    )
    wiring = Wiring(config, arguments.port)
    asyncio.run(kopf.operator(registry=wiring.registry(), settings=settings(), standalone=True, clusterwide=True))


def settings() -> kopf.OperatorSettings:
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.peering.standalone = True
    found.networking.error_backoffs = [0.5, 1, 2, 3, *[5] * 120]  # an API server may be away for some minutes
    found.persistence.diffbase_storage = NoDiffs()
    for resource in WATCHED:  # the API server sends this operator's own objects alone
        found.watching.label_selectors[resource] = f"{MANAGED_LABEL}={MANAGED_BY}"
    found.watching.field_selectors["apiextensions.k8s.io", "v1", "customresourcedefinitions"] = (
        f"metadata.name={PLURAL}.{GROUP}"
    )
    return found


class NoDiffs(kopf.DiffBaseStorage):
    """No pass asks what has changed, so that kopf need not copy each event's object to tell (half of the CPU time)."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        """Nothing is stored."""


class Wiring:
    """What is made at the start and lasts: the cluster, the queue, the endpoint for probes."""

    def __init__(self, config: Config, port: int) -> None:
        self._config, self._port = config, port
        self._cluster: LiveCluster
        self._queue: WorkQueue
        self._server: probes.Server

    def registry(self) -> kopf.OperatorRegistry:
        found = kopf.OperatorRegistry()
        kopf.on.login(registry=found)(_login)
        kopf.on.startup(registry=found)(self.start)
        kopf.on.cleanup(registry=found)(self.stop)
        kopf.on.event(GROUP, VERSION, PLURAL, registry=found, id="resource")(self.resource_event)
        for resource in WATCHED:
            kopf.on.event(*resource, registry=found, id="child")(self.child_event)
        return found

    async def start(self, **_: Any) -> None:
        may_bind = self._config.service_account and self._config.credentials_role
        kinds = [k for k in CHILD_KINDS if may_bind or k != "RoleBinding"]
        self._cluster = LiveCluster(await Api.connect(), kinds)
        try:
            await self._cluster.learn_names()
        except ApiError as e:
            if e.code != 404:
                raise
            log.warning("the kind %s.%s is not there yet: waiting for its CRD", PLURAL, GROUP)
        self._queue = WorkQueue(self._reconcile)
        self._server = await probes.serve(self._port)
        log.info("operator started, runtime image %s", self._config.runtime_image)

    async def stop(self, **_: Any) -> None:
        await self._queue.close()
        await self._server.close()
        await self._cluster.close()

    async def _reconcile(self, key: Key) -> timedelta | None:
        return await reconcile(self._cluster, key, self._config, datetime.now(UTC))

    async def resource_event(self, event: Any, **_: Any) -> None:
        """A resource wakes itself, and those that want the same model name."""
        body = event["object"]
        key = body["metadata"]["namespace"], body["metadata"]["name"]
        names = self._cluster.names
        concerned = names.gone(key) if event["type"] == "DELETED" else names.heard(parse(body))
        for woken in {key, *concerned}:
            self._queue.wake(woken)

    async def child_event(self, event: Any, **_: Any) -> None:
        """A child wakes its resource: by label, by owner, and by its own name where somebody took both off."""
        meta = event["object"]["metadata"]
        owners = {o["name"] for o in meta.get("ownerReferences") or [] if o["kind"] == KIND}
        label = (meta.get("labels") or {}).get(SERVICE_LABEL)
        for name in owners | ({label} if label else {meta["name"]}):
            self._queue.wake((meta["namespace"], name))


def _login(**given: Any) -> Any:
    return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)
