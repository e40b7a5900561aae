"""`python -m bench.control_plane [--services 1000] [--replicas 0]`: the operator with many services, on a real cluster.

KUBECONFIG names the cluster; the operator runs here as a process, so none may be at work in the cluster. Services are
made, edited and deleted in three waves. Each wave's seconds are told twice: from its first request, and from its last;
with it, whose CPU time it was, where the cluster's programs run on this machine.
Between the waves: how long until a child that another has changed is put back, and what is written while nothing
changes. With --replicas 0 no pod is made; with 1 each service has one that no node takes. With --bare the same objects
are made without an operator, by plain requests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pathlib
import statistics
import time
from collections.abc import Awaitable, Callable

from bench.control_plane import bare, shares
from bench.control_plane.api import LISTINGS, MERGE, NAMESPACE, SERVICES, Cluster, Object, manifest
from bench.control_plane.operator_process import CALM_SECONDS, Operator
from bench.control_plane.picture import Picture, until
from forebay_operator import crd
from forebay_operator.api_server import ApiServer
from forebay_operator.cluster import access
from forebay_operator.refusal import ApiError

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ARGUMENT = "--max-num-seqs=7"


class Run:
    def __init__(self, args: argparse.Namespace, server: ApiServer, operator: Operator | None) -> None:
        self._args, self._operator = args, operator
        self._cluster, self._picture = Cluster(server), Picture(server)
        self._names = [f"s-{n}" for n in range(args.services)]

    async def all(self) -> None:
        await self._picture.begin()
        await until(self._picture.gone)
        made = lambda: self._picture.served(len(self._names), "")  # noqa: E731
        if self._operator is None:
            await self._wave(
                "created", lambda n: bare.make(self._cluster, n, self._args.replicas, self._args.bare), made
            )
        else:
            await self._operator.quiet()
            await self._wave("created", lambda n: self._send("POST", n, manifest(n, self._args.replicas)), made)
            self._operator = await self._between(self._operator)
            patch = {"spec": {"engine": {"args": [ARGUMENT]}}}
            edited = lambda: self._picture.served(len(self._names), ARGUMENT)  # noqa: E731
            wave = self._wave("edited", lambda n: self._send("PATCH", n, patch), edited)
            await asyncio.gather(wave, self._reactions("in this wave"))
            await self._operator.quiet()
        await self._wave("deleted", lambda n: self._send("DELETE", n), self._picture.gone)

    async def end(self) -> None:
        await self._picture.end()
        if self._operator:
            self._operator.end()

    async def _send(self, method: str, name: str, body: Object | None = None) -> None:
        path = SERVICES if method == "POST" else f"{SERVICES}/{name}"
        await self._cluster.must(method, path, body, MERGE if method == "PATCH" else "application/json")

    async def _wave(self, what: str, send: Callable[[str], Awaitable[None]], done: Callable[[], bool]) -> None:
        operator = self._operator
        counts = await operator.counts() if operator else None
        cpu, began = shares.seconds(operator.pid if operator else None), time.monotonic()
        await self._cluster.each(self._names, send)
        sent = time.monotonic()
        await until(done)
        end = time.monotonic()
        spent = shares.told(cpu, shares.seconds(operator.pid if operator else None), end - began)
        print(
            f"{what}: {end - began:.1f} s from the first request, {end - sent:.1f} s from the last; {spent}", flush=True
        )
        if operator and counts:
            did = (await operator.counts()).since(counts)
            print(
                f"  operator: {did.reads} reads, {did.writes} writes, {did.passes} passes, "
                f"{operator.memory()} MiB at most",
                flush=True,
            )

    async def _between(self, operator: Operator) -> Operator:
        """Quiet, damage and a restart; the operator that is at work afterwards."""
        await operator.quiet()
        before = await operator.counts()
        await asyncio.sleep(self._args.idle)
        print(f"in {self._args.idle} s without a change: {(await operator.counts()).since(before).writes} writes")
        await self._reactions("while nothing else changes")
        await operator.quiet()
        was = self._picture.versions()
        operator.end()
        fresh, began = Operator(self._args.log), time.monotonic()
        await fresh.quiet(len(self._names))
        moved = [k for k, v in self._picture.versions().items() if was.get(k) != v]
        took = time.monotonic() - began - CALM_SECONDS
        print(f"restarted: quiet after {took:.1f} s, {len(moved)} objects changed", *moved[:2], flush=True)
        return fresh

    async def _reactions(self, when: str) -> None:
        """A budget is changed by another hand: until it is seen put back."""
        names = self._names[:: max(1, len(self._names) // 100)]
        changed: dict[str, float] = {}
        took: list[float] = []

        async def look() -> None:
            async for budget in self._cluster.watch_budgets():
                name = budget["metadata"]["name"]
                if budget["spec"].get("maxUnavailable") == 1 and name in changed:
                    took.append(time.monotonic() - changed.pop(name))

        looking = asyncio.create_task(look())
        await asyncio.sleep(1)
        for name in names:
            changed[name] = time.monotonic()
            path = f"{LISTINGS['PodDisruptionBudget']}/{name}"
            await self._cluster.must("PATCH", path, {"spec": {"maxUnavailable": 2}}, MERGE)
            await asyncio.sleep(0.1)
        await until(lambda: not changed, 60)
        looking.cancel()
        found = sorted(took)
        print(
            f"reaction to a changed child {when}, {len(found)} times: p50 {statistics.median(found) * 1000:.0f} ms, "
            f"p95 {found[int(len(found) * 0.95)] * 1000:.0f} ms, most {found[-1] * 1000:.0f} ms",
            flush=True,
        )


async def comes(cluster: Cluster, wanted: int, method: str, path: str, body: Object | None = None) -> None:
    """Asks until the answer is the wanted one."""
    for _ in range(600):
        if (code := await cluster.status(method, path, body)) == wanted:
            return
        await asyncio.sleep(0.1)
    raise SystemExit(f"{method} {path}: the API server says {code}")


async def run(args: argparse.Namespace, server: ApiServer) -> None:
    cluster = Cluster(server)
    made = await cluster.status("POST", CRDS, crd.manifest()) == 201
    await comes(cluster, 200, "GET", SERVICES)  # a kind that was made just now is served a moment later
    await comes(
        cluster, 201, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}
    )  # the last one's may end yet
    how = f"bare ({args.bare})" if args.bare else "with the operator"
    print(f"{args.services} services, {args.replicas} pods each, {how}, load {os.getloadavg()[0]:.1f}", flush=True)
    work = Run(args, server, None if args.bare else Operator(args.log))
    try:
        await work.all()
    finally:
        await work.end()
        await cluster.status("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        if made:  # a chart that finds a kind that is not its own refuses to install
            await cluster.status("DELETE", f"{CRDS}/{crd.manifest()['metadata']['name']}")


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.control_plane", description=__doc__)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=0, choices=[0, 1])
    parser.add_argument("--idle", type=int, default=20, help="seconds in which nothing may be written")
    parser.add_argument("--bare", choices=["post", "apply"], help="without an operator, by requests of this way")
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("/dev/null"), help="of the operator")
    args = parser.parse_args()
    server = access().api_server()
    try:
        await run(args, server)
    except ApiError as e:
        raise SystemExit(f"the API server: {e}") from e
    finally:
        await server.close()


if __name__ == "__main__":
    asyncio.run(main())
