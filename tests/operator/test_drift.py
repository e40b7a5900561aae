"""What counts as drift, and what server-side apply cannot put right by itself."""

import copy
from collections.abc import Callable

from forebay_operator.api_names import FIELD_OWNER
from forebay_operator.drift import digest, disowned, displaced, intent, replacement
from forebay_operator.observed import Manifest
from tests.operator.builders import desired, live, resource, wanted

SERVICE = desired(wanted(resource()), "Service")
DEPLOYMENT = desired(wanted(resource()), "Deployment")


def changed(manifest: Manifest, change: Callable[[Manifest], None]) -> Manifest:
    found = live(manifest)
    change(found)
    return found


def test_status_and_the_api_servers_counters_are_no_drift() -> None:
    def grow(child: Manifest) -> None:
        child["status"] = {"replicas": 3}
        child["metadata"] |= {"resourceVersion": "99", "generation": 4, "managedFields": []}
        child["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "2"}

    assert intent(changed(DEPLOYMENT, grow)) == intent(live(DEPLOYMENT))


def test_an_object_of_a_list_which_does_not_say_its_kind_means_the_same() -> None:
    listed = {k: v for k, v in live(SERVICE).items() if k not in ("kind", "apiVersion")}
    assert intent(listed) == intent(live(SERVICE))


def test_labels_owners_and_spec_are() -> None:
    before = intent(live(SERVICE))
    for part in ("labels", "ownerReferences"):
        assert intent(changed(SERVICE, lambda c, p=part: c["metadata"].pop(p))) != before  # type: ignore[misc]
    assert intent(changed(SERVICE, lambda c: c["spec"].update(type="NodePort"))) != before


def test_digests_do_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])


def test_a_port_of_another_number_is_displaced() -> None:
    assert displaced(SERVICE, changed(SERVICE, lambda c: c["spec"]["ports"][0].update(port=81)))
    assert not displaced(SERVICE, live(SERVICE))


def test_a_containers_port_and_mount_under_another_key_are_displaced() -> None:
    box = DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]
    assert box["ports"]
    assert box["volumeMounts"]

    def edit(field: str, **values: object) -> Callable[[Manifest], None]:
        return lambda c: c["spec"]["template"]["spec"]["containers"][0][field][0].update(values)

    assert displaced(DEPLOYMENT, changed(DEPLOYMENT, edit("ports", containerPort=9)))
    assert displaced(DEPLOYMENT, changed(DEPLOYMENT, edit("volumeMounts", mountPath="/elsewhere")))
    assert not displaced(DEPLOYMENT, changed(DEPLOYMENT, edit("ports", hostPort=9)))


def test_what_others_add_is_not_displaced() -> None:
    def add(child: Manifest) -> None:
        pod = child["spec"]["template"]["spec"]
        pod["containers"].insert(0, {"name": "sidecar", "ports": [{"name": "http", "containerPort": 1}]})
        pod["containers"][1]["volumeMounts"].append({"name": "theirs", "mountPath": "/theirs"})

    assert not displaced(DEPLOYMENT, changed(DEPLOYMENT, add))


def test_a_replacement_keeps_the_notes_of_others() -> None:
    there = changed(SERVICE, lambda c: c["metadata"].update(annotations={"theirs": "1"}))
    there["metadata"]["labels"]["theirs"] = "2"
    body = replacement(SERVICE, there)
    assert body["metadata"]["annotations"] == {"theirs": "1"}
    assert body["metadata"]["labels"] == {**SERVICE["metadata"]["labels"], "theirs": "2"}
    assert body["metadata"]["resourceVersion"] == "1"


def test_what_was_put_there_by_an_update_is_owned_by_apply_alone_afterwards() -> None:
    there = live(SERVICE)
    assert disowned(there) == []
    entries = there["metadata"]["managedFields"]
    theirs = {"manager": "kubectl", "operation": "Update"}
    there["metadata"]["managedFields"] = [*entries, theirs, {"manager": FIELD_OWNER, "operation": "Update"}]
    before = copy.deepcopy(there)
    test, put = disowned(there)
    assert test["value"] == "1"
    assert put["value"] == [*entries, theirs]
    assert there == before
