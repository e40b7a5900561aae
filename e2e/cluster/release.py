"""Installs the chart, applies the example, waits until it serves and asks it something."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from e2e.cluster import registry
from e2e.cluster.content import OPERATOR, RUNTIME
from e2e.cluster.images import Wanted
from e2e.cluster.shell import CommandError, Shell, until
from e2e.cluster.state import CHECKOUT, OWN_REGISTRY, State, Target

RELEASE, NAMESPACE = "forebay", "forebay-system"
EXAMPLE = CHECKOUT / "crds/examples/smollm2.yaml"
SERVICE = "smollm2"
QUESTION = "What is the capital of France?"


class Installer:
    def __init__(self, shell: Shell, state: State, target: Target) -> None:
        self.shell, self.target = shell, target
        self.kubectl = (str(state.bin / "kubectl"), f"--kubeconfig={target.kubeconfig}")
        self.helm = (str(state.bin / "helm"), f"--kubeconfig={target.kubeconfig}", "--namespace", NAMESPACE)

    def chart(self, need: Wanted, say: Callable[[str], None]) -> str:
        operator = registry.reference(self.target, OPERATOR.repository, need.operator.image)
        runtime = registry.reference(self.target, RUNTIME.repository, need.runtime.image)
        self.free_release()
        say(f"operator {need.operator.image}, runtime {need.runtime.image}")
        values = ("--set", f"images.operator={operator}", "--set", f"images.runtime={runtime}")
        # The operator suite puts the chart back with `kubectl apply`, which then owns the fields.
        upgrade = ("upgrade", "--install", "--force-conflicts", RELEASE, CHECKOUT / "helm/forebay")
        options = ("--create-namespace", "--history-max", "3", "--wait", "--timeout", "4m")
        try:
            self.shell.run(*self.helm, *upgrade, *options, *values, seconds=300)
        except CommandError as error:
            raise CommandError(f"{error}\n{self.evidence(NAMESPACE)}") from error
        return f"release {RELEASE} in namespace {NAMESPACE}"

    def free_release(self) -> None:
        """A helm that was cut off leaves its release locked as pending; helm itself only ever says so."""
        states = ",".join(("pending-install", "pending-upgrade", "pending-rollback"))
        selector = f"owner=helm,name={RELEASE},status in ({states})"
        wipe = ("delete", "secret", f"--namespace={NAMESPACE}", f"--selector={selector}", "--ignore-not-found")
        self.shell.run(*self.kubectl, *wipe, seconds=30)

    def example(self, say: Callable[[str], None]) -> str:
        manifest = EXAMPLE.read_text().replace(f"oci://{OWN_REGISTRY}/", f"oci://{self.target.registry}/")
        self.shell.run(*self.kubectl, "apply", "-f", "-", seconds=60, stdin=manifest)
        say(f"waiting for inferenceservice/{SERVICE} to be Ready")
        wait = ("wait", "--for=condition=Ready", f"inferenceservice/{SERVICE}", "--timeout=420s")
        try:
            self.shell.run(*self.kubectl, *wait, seconds=450)
        except CommandError as error:
            shown = self.shell.read(*self.kubectl, "get", "inferenceservice", SERVICE, "-o", "yaml", seconds=30)
            raise CommandError(f"{error}\n{shown}\n{self.evidence('default')}") from error
        return f"inferenceservice/{SERVICE} is Ready"

    def evidence(self, namespace: str) -> str:
        """What the cluster says of a namespace where something does not become ready."""
        asked = (
            ("get", "pods", "-o", "wide"),
            ("get", "events", "--sort-by=.lastTimestamp", "--field-selector=type!=Normal"),
        )
        said = []
        for words in asked:
            try:
                said.append(self.shell.read(*self.kubectl, *words, f"--namespace={namespace}", seconds=30))
            except CommandError as error:
                said.append(str(error))
        return "\n".join(said)[-4000:]

    def gateway(self) -> str:
        path = "{.spec.clusterIP}:{.spec.ports[0].port}"
        get = ("get", "service", "forebay-gateway", f"--namespace={NAMESPACE}", "-o", f"jsonpath={path}")
        return f"http://{self.shell.read(*self.kubectl, *get, seconds=30).strip()}".removesuffix(":80")

    def answer(self, say: Callable[[str], None]) -> str:
        """One chat completion, as a client would ask for it. On a cluster of the user's through the API server."""
        address, got = self.gateway(), {"": ""}
        body = {
            "model": SERVICE,
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": 32,
            "temperature": 0,
        }

        def missing() -> str:
            try:
                reply = post(address, body) if self.target.own else self.post_through_api(body)
            except (OSError, ValueError, CommandError) as error:
                return f"an answer from {address}: {reason(error)}"
            got[""] = reply["choices"][0]["message"]["content"]
            return ""

        until(missing, seconds=60, every=0.5)
        say(f"asked {address} for {SERVICE}: {QUESTION}")
        for line in got[""].strip().splitlines():
            say(f"  {line}")
        return "answered"

    def post_through_api(self, body: dict[str, Any]) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{NAMESPACE}/services/forebay-gateway:http/proxy/v1/chat/completions"
        create = ("create", "--raw", path, "-f", "-")
        found: dict[str, Any] = json.loads(self.shell.read(*self.kubectl, *create, seconds=120, stdin=json.dumps(body)))
        return found


def post(address: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/v1/chat/completions", json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as reply:
        found: dict[str, Any] = json.loads(reply.read())
        return found


def reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.read(500).decode(errors='replace')}"
    return str(error)


def how_to_go_on(state: State, target: Target, gateway: str) -> str:
    """What the user may type next, ready to be copied."""
    lines = [f"export KUBECONFIG={target.kubeconfig} PATH=$PATH:{state.bin}", "kubectl get isvc"]
    if not target.own:
        gateway = "http://127.0.0.1:8080"
        lines.append(f"kubectl port-forward -n {NAMESPACE} service/forebay-gateway 8080:80 &")
    body = json.dumps({"model": SERVICE, "messages": [{"role": "user", "content": "Hello"}]})
    lines.append(f"curl {gateway}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'")
    snippet = [
        "python3 - <<'END'    # pip install openai",
        "from openai import OpenAI",
        f'client = OpenAI(base_url="{gateway}/v1", api_key="none")',
        f'stream = client.chat.completions.create(model="{SERVICE}", stream=True,',
        '    messages=[{"role": "user", "content": "Hello"}])',
        'for chunk in stream: print(chunk.choices[0].delta.content or "", end="", flush=True)',
        "END",
    ]
    end = "make down    # takes it all away again" if target.own else f"helm uninstall -n {NAMESPACE} {RELEASE}"
    return "\n".join(["", "How to go on:", *(f"  {line}" for line in [*lines, *snippet, end])])
