"""Carries out what is to become of things that several resources share: created, never applied, so that no owner that
another resource has put there is lost."""

from __future__ import annotations

from forebay_operator.api_names import FIELD_OWNER
from forebay_operator.cluster.api import MERGE, Api
from forebay_operator.cluster.cache import Cache
from forebay_operator.cluster.paths import child_path
from forebay_operator.downloads import Act, Amend, Make, Remove
from forebay_operator.happenings import Change, Verb
from forebay_operator.observed import Manifest
from forebay_operator.refusal import ApiError, consequence


async def carry_out(act: Act, api: Api, cache: Cache) -> Change:
    """ClusterUnavailable where it is not as it was seen any more; Refused by the API server's own reasons."""
    match act:
        case Make(manifest):
            what, verb = manifest, Verb.MADE
        case Amend(live, _):
            what, verb = live, Verb.CHANGED
        case Remove(live):
            what, verb = live, Verb.REMOVED
    try:
        await _send(act, what, api, cache)
    except ApiError as e:
        if e.code != 404 or verb is not Verb.REMOVED:
            raise consequence(e, f"{what['kind']} {what['metadata']['name']}") from e
    return Change(verb, what["kind"])


async def _send(act: Act, what: Manifest, api: Api, cache: Cache) -> None:
    path, by = child_path(what), {"fieldManager": FIELD_OWNER}
    match act:
        case Make(manifest):
            collection = path.rpartition("/")[0]
            now = await api.request("POST", collection, manifest, {**by, "fieldValidation": "Strict"})
        case Amend(live, patch):
            about = {**patch.get("metadata", {}), "resourceVersion": live["metadata"]["resourceVersion"]}
            now = await api.patch(path, {**patch, "metadata": about}, MERGE, **by)
        case Remove(live):  # seen to go by the watch: a Job goes after its pods
            seen = {k: live["metadata"][k] for k in ("uid", "resourceVersion")}  # nobody has joined since
            body = {"preconditions": seen, "propagationPolicy": "Foreground"}
            await api.request("DELETE", path, body)
            return
    cache.wrote({**now, "kind": what["kind"]})
