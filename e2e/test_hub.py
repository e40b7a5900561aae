"""`hf://`: the model comes from a hub, with the token of a Secret, before the engine starts."""

import pathlib

from e2e.load import Request
from e2e.python_pod import add_volume, python_pod
from e2e.story import Story, Wanted

REPOSITORY, TOKEN = "forebay/sample", "a-token-of-the-story"
SCRIPT = pathlib.Path(__file__).with_name("hub.py")


def start_hub(story: Story, rate: int = 0) -> str:
    """The address, as pods see it, of a hub that serves the sample model, at so many bytes a second (0: as it can)."""
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "hub"},
        "data": {"hub.py": SCRIPT.read_text()},
    }
    pod = python_pod(story.kube, "hub", "-u", "/hub/hub.py", "/model", REPOSITORY, TOKEN, str(rate))
    add_volume(pod, "script", "/hub", {"configMap": {"name": "hub"}})
    pod["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hub"},
        "spec": {"selector": {"story": "hub"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    story.kube.apply(story.namespace, script, pod, service)
    story.kube.must("wait", "--for=condition=Ready", "pod/hub", "-n", story.namespace, "--timeout=60s", timeout=70)
    return f"http://hub.{story.namespace}.svc"


def test_a_model_of_a_hub_is_fetched_and_served(story: Story) -> None:
    address = start_hub(story)
    wanted = Wanted("fetched").with_(
        model={"source": f"hf://{REPOSITORY}@main", "credentialsSecret": "hub-token"},
        engine__env=[{"name": "HF_ENDPOINT", "value": address}],
    )
    served = story.apply(wanted)
    served.comes_to_say("hub-token", seconds=60)  # named, since it is not there

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub-token"}, "stringData": {"token": TOKEN}}
    story.kube.apply(story.namespace, secret)
    served.becomes_ready(seconds=150)
    with served.under_load(Request(tokens=8)) as load:
        load.goes_on(1)


def test_a_model_that_the_hub_does_not_have_is_told(story: Story) -> None:
    address = start_hub(story)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub-token"}, "stringData": {"token": TOKEN}}
    story.kube.apply(story.namespace, secret)
    wanted = Wanted("missing").with_(
        model={"source": "hf://forebay/there-is-none", "credentialsSecret": "hub-token"},
        engine__env=[{"name": "HF_ENDPOINT", "value": address}],
    )
    served = story.apply(wanted)
    served.comes_to_say(r"forebay/there-is-none", seconds=60)
    assert served.condition("Ready")["status"] == "False"
