"""spec.model.source in its parts, and the container that brings a model from where no volume can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forebay_operator.children import restricted
from forebay_operator.config import Config
from forebay_operator.observed import Manifest
from forebay_operator.program import FETCHER, RUNTIME
from forebay_operator.resource import Spec

REMOTE = ("hf", "s3")  # schemes of sources that are downloaded
KEYS = {  # scheme -> variable -> key of the Secret, and whether it may be left out
    "hf": {"HF_TOKEN": ("token", False)},
    "s3": {
        "AWS_ACCESS_KEY_ID": ("AWS_ACCESS_KEY_ID", False),
        "AWS_SECRET_ACCESS_KEY": ("AWS_SECRET_ACCESS_KEY", False),
        "AWS_SESSION_TOKEN": ("AWS_SESSION_TOKEN", True),
        "AWS_REGION": ("AWS_REGION", True),
        "AWS_ENDPOINT_URL": ("AWS_ENDPOINT_URL", True),
    },
}


@dataclass(frozen=True, slots=True)
class Source:
    """`path` is empty where there is none."""

    scheme: str
    reference: str
    path: str = ""

    @property
    def remote(self) -> bool:
        return self.scheme in REMOTE


def parse_source(source: str) -> Source:
    scheme, rest = source.split("://", 1)
    if scheme == "pvc":
        claim, _, path = rest.partition("/")
        return Source(scheme, claim, path)
    return Source(scheme, rest)


def fetcher(
    spec: Spec, config: Config, arguments: Iterable[str], mount: Mapping[str, str], resources: Mapping[str, Any]
) -> Manifest:
    """Of our own runtime, whatever engine serves the model then."""
    own = spec.engine.image if spec.engine.type == "forebay" else None
    secret = _secret(spec)
    given = {e["name"] for e in secret}
    return {
        "name": FETCHER,
        "image": own or config.runtime_image,
        "imagePullPolicy": config.image_pull_policy,
        "command": list(RUNTIME),
        "env": [*({"name": e.name, "value": e.value} for e in spec.engine.env if e.name not in given), *secret],
        "resources": dict(resources),
        "securityContext": restricted.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "args": list(arguments),
        "volumeMounts": [dict(mount), restricted.TMP],
    }


def _secret(spec: Spec) -> list[dict[str, Any]]:
    """The variables that the Secret of the spec gives; without one the pod's own identity counts."""
    name = spec.model.credentials_secret
    keys = KEYS.get(parse_source(spec.model.source).scheme, {}) if name else {}
    return [
        {
            "name": variable,
            "valueFrom": {"secretKeyRef": {"name": name, "key": key, **({"optional": True} if optional else {})}},
        }
        for variable, (key, optional) in keys.items()
    ]
