"""The ways to an API server that a kubeconfig may name."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from forebay_operator.kubeconfig import KubeconfigError, api_server


def written(at: pathlib.Path, user: dict[str, Any], context: str = "c") -> pathlib.Path:
    document = {
        "current-context": context,
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = at / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_current_context_names_the_server(tmp_path: pathlib.Path) -> None:
    assert api_server(written(tmp_path, {})).url == "http://127.0.0.1:1"


def test_a_way_to_log_in_that_is_not_built_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    with pytest.raises(KubeconfigError, match="exec"):
        api_server(written(tmp_path, {"exec": {"command": "aws"}}))


def test_a_context_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(KubeconfigError, match="other"):
        api_server(written(tmp_path, {}, context="other"))
