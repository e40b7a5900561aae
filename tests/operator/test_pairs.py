"""Input and expected YAML: pairs/NAME/resource.yaml -> pairs/NAME/children.yaml.

A child that is meant to change takes its expected file along: `python -m tests.operator.test_pairs` writes
them anew, and the difference is what is reviewed.
"""

import json
import pathlib

import pytest
import yaml

from forebay_operator.config import Config
from forebay_operator.observed import Known, Observed
from forebay_operator.resource import InvalidSpec, parse
from forebay_operator.sync import sync
from tests.operator.builders import COMPLETE, NOW, cache_of, download

PAIRS = pathlib.Path(__file__).parent / "pairs"
ENGINES = {"vllm": "registry/vllm:1", "sglang": "registry/sglang:1", "tgi": "registry/tgi:1"}
CONFIG = Config(
    "registry/runtime:1",
    "registry/operator:1",
    ENGINES,
    service_account="forebay-system/forebay-operator",
    credentials_role="reader",
)
META = {"namespace": "ns", "uid": "the-uid", "generation": 1, "creationTimestamp": "2026-03-01T11:00:00Z"}


def rendered(pair: pathlib.Path) -> str:
    body = yaml.safe_load((pair / "resource.yaml").read_text())
    resource = parse({**body, "metadata": {**META, **body["metadata"]}})
    assert not isinstance(resource.spec, InvalidSpec), resource.spec
    secret = resource.spec.model.credentials_secret
    credentials = Known("digest") if secret else None
    shared = cache_of(resource, CONFIG, credentials=credentials)
    seen = Observed(credentials=credentials, download=download(shared, **COMPLETE))
    outcome = sync(resource, seen, CONFIG, NOW)
    assert outcome.children is not None
    plain = json.loads(json.dumps([*shared, *outcome.children]))
    return yaml.safe_dump_all(plain, sort_keys=False, width=120, allow_unicode=True)


@pytest.mark.parametrize("pair", sorted(PAIRS.iterdir()), ids=lambda p: p.name)
def test_a_resource_becomes_these_children(pair: pathlib.Path) -> None:
    assert rendered(pair) == (pair / "children.yaml").read_text()


if __name__ == "__main__":
    for each in sorted(PAIRS.iterdir()):
        (each / "children.yaml").write_text(rendered(each))
