"""`python -m bench.control_plane [--services 1000] [--replicas 0]`: the operator with many services, on a real cluster.

KUBECONFIG names the cluster; the operator runs here as a process, so none may be at work in the cluster. Services are
made, edited and deleted in three waves. Each wave's seconds are told twice: from its first request, and from its last.
Between the waves: how long until a child that another has changed is put back, and what is written while nothing
changes. With --replicas 0 no pod is made; with 1 each service has one that no node takes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import aiohttp

from forebay_operator import crd
from forebay_operator.api_server import ApiServer
from forebay_operator.child_kinds import CHILD_KINDS
from forebay_operator.cluster import access
from forebay_operator.refusal import ApiError

BIN = pathlib.Path(sys.executable).parent
NAMESPACE = "forebay-bench"
SERVICES = f"/apis/forebay.dev/v1alpha1/namespaces/{NAMESPACE}/inferenceservices"
KINDS = [k for k in CHILD_KINDS.values() if k.kind in ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy")]
BUDGETS = CHILD_KINDS["PodDisruptionBudget"].path(NAMESPACE, "").rstrip("/")
TOGETHER = 16
Object = dict[str, Any]


class Cluster:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(self, method: str, path: str, body: Object | None = None, content: str = "application/json") -> int:
        sent = None if body is None else json.dumps(body)
        return (await self._server.send(method, path, {}, sent, content))[0]

    async def items(self, path: str) -> list[Object]:
        """As the API server's own cache has them: cheap, and never older than a moment."""
        found: list[Object] = (await self._server.get(path, resourceVersion="0"))["items"]
        return found

    async def each(self, names: Iterable[str], send: Callable[[str], Awaitable[int]]) -> None:
        gate = asyncio.Semaphore(TOGETHER)

        async def one(name: str) -> None:
            async with gate:
                code = await send(name)
                if code >= 300:
                    raise SystemExit(f"{name}: the API server says {code}")

        await asyncio.gather(*map(one, names))

    async def watch_budgets(self) -> AsyncIterator[Object]:
        version = (await self._server.get(BUDGETS))["metadata"]["resourceVersion"]
        async for event in self._server.watch(BUDGETS, resourceVersion=version):
            yield event["object"]


def manifest(name: str, replicas: int) -> Object:
    spec = {
        "model": {"source": "oci://registry.invalid/model:1"},
        "replicas": replicas,
        "podTemplate": {"nodeSelector": {"forebay.dev/bench": "no-node"}},
    }
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "forebay.dev/v1alpha1", "kind": "InferenceService", "metadata": meta, "spec": spec}


# ------------------------------------------------------------------ what counts as done
async def known(cluster: Cluster) -> bool:
    """A kind that was made just now is served a moment later."""
    return await cluster.send("GET", SERVICES) == 200


async def served(cluster: Cluster, count: int, argument: str) -> bool:
    """Every service has its children, as its present generation wants them, and a status that says so."""
    services = await cluster.items(SERVICES)
    seen = [s for s in services if (s.get("status") or {}).get("observedGeneration") == s["metadata"]["generation"]]
    if len(seen) < count:
        return False
    for kind in KINDS:
        children = await cluster.items(kind.path(NAMESPACE, "").rstrip("/"))
        if kind.kind == "Deployment":
            pods = [c["spec"]["template"]["spec"]["containers"][0] for c in children]
            children = [p for p in pods if not argument or argument in p["args"]]
        if len(children) < count:
            return False
    return True


async def gone(cluster: Cluster) -> bool:
    for path in (SERVICES, *(k.path(NAMESPACE, "").rstrip("/") for k in KINDS)):
        if [i for i in await cluster.items(path) if i["metadata"]["name"].startswith("s-")]:
            return False
    return True


async def until(done: Callable[[], Awaitable[bool]], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not await done():
        if time.monotonic() > deadline:
            raise SystemExit(f"not converged in {seconds:.0f} s")
        await asyncio.sleep(1)


# ------------------------------------------------------------------ the operator as a process
class Operator:
    def __init__(self, log: pathlib.Path) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self._port = s.getsockname()[1]
        command: list[str | pathlib.Path] = [
            BIN / "forebay",
            "operator",
            "--runtime-image",
            "registry.invalid/runtime:1",
        ]
        with log.open("w") as out:
            self._process = subprocess.Popen([*command, "--port", str(self._port)], stdout=out, stderr=out)

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def cpu(self) -> float:
        fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """The most that was ever resident, in MiB."""
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]

    async def counts(self) -> tuple[int, int, int, int]:
        """Requests that read, requests that write, resources that wait for a pass, passes that were made."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self._port}/metrics") as reply:
            text = await reply.text()
        sent = {m[1]: int(float(m[2])) for m in re.finditer(r'api_requests_total{verb="(\w+)"} (\S+)', text)}
        pending = int(float(re.search(r"^forebay_reconcile_pending (\S+)", text, re.MULTILINE)[1]))  # type: ignore[index]
        made = sum(int(float(m[1])) for m in re.finditer(r"reconcile_total{[^}]*} (\S+)", text))
        return sent.pop("GET", 0), sum(sent.values()), pending, made

    async def quiet(self, passes: int = 0) -> None:
        """Until it has made so many passes, and then has sent nothing and nothing waits for three seconds."""
        before, calm = None, 0
        while calm < 3:
            await asyncio.sleep(1)
            with contextlib.suppress(aiohttp.ClientError):
                now = await self.counts()
                calm = calm + 1 if now == before and not now[2] and now[3] >= passes else 0
                before = now


# ------------------------------------------------------------------ the run
async def wave(
    name: str, operator: Operator, send: Callable[[], Awaitable[None]], done: Callable[[], Awaitable[bool]]
) -> None:
    began, cpu, before = time.monotonic(), operator.cpu(), await operator.counts()
    await send()
    sent = time.monotonic()
    await until(done)
    end = time.monotonic()
    reads, writes = (now - was for now, was in zip((await operator.counts())[:2], before[:2], strict=True))
    print(
        f"{name:<8}{end - began:7.1f} s from the first request, {end - sent:5.1f} s from the last; operator: "
        f"{operator.cpu() - cpu:5.1f} s of CPU, {reads} reads, {writes} writes, {operator.memory()} MiB at most",
        flush=True,
    )


async def reactions(cluster: Cluster, names: list[str]) -> None:
    """A budget is changed by another hand: until it is seen put back."""
    changed: dict[str, float] = {}
    took: list[float] = []

    async def look() -> None:
        async for budget in cluster.watch_budgets():
            name = budget["metadata"]["name"]
            if budget["spec"].get("maxUnavailable") == 1 and name in changed:
                took.append(time.monotonic() - changed.pop(name))

    looking = asyncio.create_task(look())
    await asyncio.sleep(1)
    for name in names:
        changed[name] = time.monotonic()
        await cluster.send(
            "PATCH", f"{BUDGETS}/{name}", {"spec": {"maxUnavailable": 2}}, "application/merge-patch+json"
        )
        await asyncio.sleep(0.1)
    await until(_empty(changed), 60)
    looking.cancel()
    found = sorted(took)
    print(
        f"reaction to a changed child, {len(found)} times: p50 {statistics.median(found) * 1000:.0f} ms, "
        f"p95 {found[int(len(found) * 0.95)] * 1000:.0f} ms, most {found[-1] * 1000:.0f} ms",
        flush=True,
    )


def _empty(changed: dict[str, float]) -> Callable[[], Awaitable[bool]]:
    async def done() -> bool:
        return not changed

    return done


async def versions(cluster: Cluster) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in (SERVICES, *(k.path(NAMESPACE, "").rstrip("/") for k in KINDS)):
        found |= {
            f"{path}/{i['metadata']['name']}": i["metadata"]["resourceVersion"] for i in await cluster.items(path)
        }
    return found


async def run(args: argparse.Namespace, server: ApiServer) -> None:
    cluster, names = Cluster(server), [f"s-{n}" for n in range(args.services)]
    at = f"{SERVICES}/"
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await cluster.send("POST", crds, crd.manifest()) == 201
    await until(lambda: known(cluster), 30)
    await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await until(lambda: gone(cluster))
    operator = Operator(args.log)
    print(f"{args.services} services, {args.replicas} pods each, load {os.getloadavg()[0]:.0f}", flush=True)
    try:
        await operator.quiet()
        make = lambda n: cluster.send("POST", SERVICES, manifest(n, args.replicas))  # noqa: E731
        await wave("created", operator, lambda: cluster.each(names, make), lambda: served(cluster, len(names), ""))
        await operator.quiet()
        before = await operator.counts()
        await asyncio.sleep(args.idle)
        print(f"in {args.idle} s without a change: {(await operator.counts())[1] - before[1]} writes", flush=True)
        await reactions(cluster, names[:: max(1, len(names) // 100)])
        await operator.quiet()
        was = await versions(cluster)
        operator.end()
        operator, began = Operator(args.log), time.monotonic()
        await operator.quiet(args.services)
        moved = [k for k, v in (await versions(cluster)).items() if was.get(k) != v]
        print(
            f"restarted: quiet after {time.monotonic() - began - 3:.1f} s, {len(moved)} objects changed",
            *moved[:2],
            flush=True,
        )
        patch = {"spec": {"engine": {"args": ["--max-num-seqs=7"]}}}
        edit = lambda n: cluster.send("PATCH", at + n, patch, "application/merge-patch+json")  # noqa: E731
        done = lambda: served(cluster, len(names), "--max-num-seqs=7")  # noqa: E731
        await wave("edited", operator, lambda: cluster.each(names, edit), done)
        await operator.quiet()
        drop = lambda n: cluster.send("DELETE", at + n)  # noqa: E731
        await wave("deleted", operator, lambda: cluster.each(names, drop), lambda: gone(cluster))
    finally:
        operator.end()
        await cluster.send("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        if made:  # a chart that finds a kind that is not its own refuses to install
            await cluster.send("DELETE", f"{crds}/{crd.manifest()['metadata']['name']}")


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.control_plane", description=__doc__)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=0, choices=[0, 1])
    parser.add_argument("--idle", type=int, default=20, help="seconds in which nothing may be written")
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
