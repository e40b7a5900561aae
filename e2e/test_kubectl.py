"""What an engineer types: get, explain, diff, wait, scale, describe behave as for a kind of Kubernetes' own."""

import json
import re

import yaml

from e2e.kube import Kube, path_of
from e2e.story import PODS, Served, Story, Wanted


def columns(served: Served, *more: str) -> dict[str, str]:
    """The printed row of the object, by the column's title."""
    head, row = served.kube.must("get", "isvc", served.name, "-n", served.namespace, *more).splitlines()
    starts = [m.start() for m in re.finditer(r"\S+", head)]
    ends = [*starts[1:], max(len(head), len(row))]
    return {head[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def test_what_a_person_sees(story: Story) -> None:
    served = story.apply(Wanted("seen"))
    story.kube.must(
        "wait", "--for=condition=Ready", f"isvc/{served.name}", "-n", story.namespace, "--timeout=150s", timeout=160
    )

    short, wide = columns(served), columns(served, "-o", "wide")
    assert {"NAME", "READY", "AGE"} <= short.keys()
    assert short["READY"] == "True"
    assert short.keys() < wide.keys(), "-o wide shows more"
    assert not [title for title, value in wide.items() if value in ("", "<none>")]
    said = story.kube.must("describe", "isvc", served.name, "-n", story.namespace)
    assert "Conditions:" in said

    # An edit takes the old readiness back at once: `wait` must not return from it.
    served.edit(engine__args=["--max-num-seqs=12"])
    generation = served.now()["metadata"]["generation"]
    story.kube.must(
        "wait", "--for=condition=Ready", f"isvc/{served.name}", "-n", story.namespace, "--timeout=150s", timeout=160
    )
    (pod,) = served.ready_pods()
    assert "--max-num-seqs=12" in pod["spec"]["containers"][0]["args"]
    observed = f"--for=jsonpath={{.status.observedGeneration}}={generation}"
    story.kube.must("wait", observed, f"isvc/{served.name}", "-n", story.namespace, "--timeout=10s")

    scale = ("get", "isvc", served.name, "-n", story.namespace, "--subresource=scale", "-o", "json")
    status = json.loads(story.kube.must(*scale))["status"]
    assert status["replicas"] == 1
    chosen = story.kube.items(path_of(PODS, story.namespace), status["selector"])
    assert pod["metadata"]["uid"] in {p["metadata"]["uid"] for p in chosen}, "the scale subresource selects its pods"
    assert {p["metadata"]["labels"]["forebay.dev/inferenceservice"] for p in chosen} == {served.name}


def test_apply_and_diff_see_no_drift(story: Story) -> None:
    served = story.apply(Wanted("drift").parked().scaling(3, queueDepth=4))
    served.comes_to_say("Unschedulable")
    text = yaml.safe_dump(served.manifest)
    difference = story.kube.kubectl("diff", "-n", story.namespace, "-f", "-", stdin=text)
    assert (difference.rc, difference.out) == (0, "")
    assert "unchanged" in story.kube.must("apply", "-n", story.namespace, "-f", "-", stdin=text)


def test_every_field_is_explained(cluster: Kube) -> None:
    text = cluster.must("explain", "isvc.spec", "--recursive")
    fields = [line.split()[0] for line in text.partition("FIELDS:")[2].splitlines() if re.match(r"  \S", line)]
    assert {"model", "engine", "resources", "replicas", "scaling"} <= set(fields)
    for field in fields:
        assert "<empty>" not in cluster.must("explain", f"isvc.spec.{field}"), f"spec.{field} has no sentence"


def test_a_wrong_field_is_refused_with_its_path(story: Story) -> None:
    manifest = Wanted("wrong").with_(engine__quantisation="int8").manifest("wrong")
    done = story.kube.kubectl("apply", "-n", story.namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    assert done.rc != 0
    assert 'unknown field "spec.engine.quantisation"' in done.text

    manifest = Wanted("wrong").with_(scaling={"minReplicas": 3, "maxReplicas": 2}).manifest("wrong")
    done = story.kube.kubectl("apply", "-n", story.namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    assert done.rc != 0
    assert "spec.scaling" in done.text
    assert "minReplicas" in done.text
