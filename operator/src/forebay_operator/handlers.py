"""kopf wiring alone: who wakes whom. Every pass is in reconcile.py; kopf keeps no state, annotation or finalizer.

kopf watches the resources; their children and pods are watched by the cache, which has to know what is *not* there.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from forebay_operator.api_names import GROUP, KIND, PLURAL, VERSION
from forebay_operator.api_server import ApiServer
from forebay_operator.child_kinds import CHILD_KINDS
from forebay_operator.cluster import About, Access, Api, Cache, LiveCluster, Weight
from forebay_operator.config import Config
from forebay_operator.reconcile import reconcile
from forebay_operator.refusal import ApiError
from forebay_operator.resource import parse
from forebay_operator.turns import Key
from forebay_operator.work_queue import WorkQueue

log = logging.getLogger(__name__)
START_AGAIN = 1.0  # seconds; kopf's own minute is long where an API server is away for a moment


async def operate(way: Access, wiring: Wiring) -> int:
    """Until the wiring's stop is set or a signal comes; the exit status."""
    registry = wiring.registry(way)
    await kopf.operator(
        registry=registry,
        settings=settings(),
        standalone=True,
        clusterwide=True,
        stop_flag=wiring.stop_flag,
    )
    return wiring.status


def settings() -> kopf.OperatorSettings:
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.peering.standalone = True
    found.networking.error_backoffs = [0.5, 1, 2, 3, *[5] * 120]  # an API server may be away for some minutes
    found.persistence.diffbase_storage = NoDiffs()
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
    """What is made at the start and lasts: the cache, the cluster, the queue. `status` is the process's exit status."""

    def __init__(self, config: Config, server: ApiServer, api: Api, stop: asyncio.Event) -> None:
        self._config, self.stop_flag, self.status = config, stop, 0
        may_bind = config.service_account and config.credentials_role
        kinds = [k for k in CHILD_KINDS.values() if may_bind or k.kind != "RoleBinding"]
        self._cache = Cache(server, kinds, self.child_changed)
        self._cluster = LiveCluster(api, self._cache)
        self._queue = WorkQueue(self._reconcile)
        self._following: asyncio.Task[None]

    def registry(self, way: Access) -> kopf.OperatorRegistry:
        found = kopf.OperatorRegistry()
        kopf.on.login(registry=found)(lambda **_: _login(way))
        kopf.on.startup(registry=found, backoff=START_AGAIN)(self.start)
        kopf.on.cleanup(registry=found)(self.stop)
        kopf.on.event(GROUP, VERSION, PLURAL, registry=found, id="resource")(self.resource_event)
        return found

    async def start(self, **_: Any) -> None:
        """Nothing is decided before everything has been listed once."""
        try:
            await self._cluster.learn_names()
        except ApiError as e:
            if e.code != 404:
                raise
            log.warning("the kind %s.%s is not there yet: waiting for its CRD", PLURAL, GROUP)
        self._following = asyncio.create_task(self._cache.run())
        self._following.add_done_callback(self._follows_no_more)
        await self._cache.until_synced()
        log.info("operator started, runtime image %s", self._config.runtime_image)

    def _follows_no_more(self, following: asyncio.Task[None]) -> None:
        """An operator whose picture of the cluster stands still must not act on it: it ends, and is started again."""
        if not following.cancelled():
            log.critical("the watches have failed: %r", following.exception())
            self.status = 1
            self.stop_flag.set()

    async def stop(self, **_: Any) -> None:
        self._following.cancel()
        await self._queue.close()
        await self._cluster.close()

    async def _reconcile(self, key: Key) -> timedelta | None:
        return await reconcile(self._cluster, key, self._config, datetime.now(UTC))

    async def resource_event(self, event: Any, **_: Any) -> None:
        """A resource wakes itself, and those that want the same model name; a status of our own wakes nobody."""
        meta = event["object"]["metadata"]
        key = meta["namespace"], meta["name"]
        if event["type"] == "DELETED":
            woken = {key, *self._cluster.gone(key)}
        else:
            woken = self._cluster.heard(parse(event["object"]))
            if not self._cluster.is_own_status(key, meta["resourceVersion"]):
                woken = {key, *woken}
        for one in woken:
            self._queue.wake(one)

    def child_changed(self, about: About, weight: Weight) -> None:
        """A child wakes its resource: by label, by owner, and by its own name where somebody took both off. Pods of a
        download are asked every few seconds anyway."""
        if about.download:
            return
        owners = {name for kind, name in about.owners if kind == KIND}
        for name in owners | {about.service or about.name}:
            self._queue.wake((about.namespace, name), urgent=weight is Weight.DAMAGE)


def _login(way: Access) -> kopf.ConnectionInfo:
    """kopf watches by the way that everything else goes; refused, it asks again, and hears of a new token."""
    scheme, _, token = (way.authorization() or "").partition(" ")
    return kopf.ConnectionInfo(
        server=way.url,
        ca_path=way.ca_file,
        insecure=not way.verify,
        scheme=scheme or None,
        token=token or None,
        certificate_path=way.certificate_file,
        private_key_path=way.key_file,
    )
