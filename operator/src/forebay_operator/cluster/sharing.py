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

VERBS = {Make: Verb.MADE, Amend: Verb.CHANGED, Remove: Verb.REMOVED}


async def carry_out(act: Act, api: Api, cache: Cache) -> Change:
    """ClusterUnavailable where it is not as it was seen any more; Refused by the API server's own reasons."""
    what = act.what
    try:
        if now := await _send(act, api):
            cache.wrote({**now, "kind": what["kind"]})
    except ApiError as e:
        if e.code != 404 or not isinstance(act, Remove):
            raise consequence(e, f"{what['kind']} {what['metadata']['name']}") from e
    return Change(VERBS[type(act)], what["kind"])


async def _send(act: Act, api: Api) -> Manifest | None:
    """What there is then; of what is removed the watch sees it go: a Job goes after its pods."""
    path, by, meta = child_path(act.what), {"fieldManager": FIELD_OWNER}, act.what["metadata"]
    match act:
        case Make():
            options = {**by, "fieldValidation": "Strict"}
            return await api.request("POST", path.rpartition("/")[0], act.what, options)
        case Amend():
            about = {**act.patch.get("metadata", {}), "resourceVersion": meta["resourceVersion"]}
            return await api.patch(path, {**act.patch, "metadata": about}, MERGE, **by)
        case Remove():
            seen = {k: meta[k] for k in ("uid", "resourceVersion")}  # nobody has joined since
            await api.request("DELETE", path, {"preconditions": seen, "propagationPolicy": "Foreground"})
            return None
