"""The ways to an API server that a kubeconfig may name."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
import yaml

from forebay_operator.cluster.access import AccessError, access
from forebay_operator.handlers import _login


def written(at: pathlib.Path, user: dict[str, Any], context: str = "c", **cluster: Any) -> str:
    document = {
        "current-context": context,
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"} | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = at / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_current_context_names_the_server(tmp_path: pathlib.Path) -> None:
    assert access(written(tmp_path, {})).url == "http://127.0.0.1:1"


def test_nobody_in_particular_sends_no_token(tmp_path: pathlib.Path) -> None:
    assert access(written(tmp_path, {})).authorization() is None


def test_a_token(tmp_path: pathlib.Path) -> None:
    assert access(written(tmp_path, {"token": "abc"})).authorization() == "Bearer abc"


def test_a_token_that_a_program_gives(tmp_path: pathlib.Path) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "made"},
    }
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(credential))})"],
        "interactiveMode": "Never",
    }
    assert access(written(tmp_path, {"exec": program})).authorization() == "Bearer made"


def test_a_context_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AccessError, match="other"):
        access(written(tmp_path, {}, context="other"))


def test_a_file_that_is_not_there_is_said(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AccessError, match="kube-config"):
        access(str(tmp_path / "nothing"))


def test_several_files_are_one(tmp_path: pathlib.Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    users = pathlib.Path(written(tmp_path / "one", {"token": "abc"}))
    whole = yaml.safe_load(users.read_text())
    users.write_text(yaml.safe_dump({"users": whole.pop("users")}))
    (tmp_path / "two" / "config").write_text(yaml.safe_dump(whole))
    assert access(f"{users}:{tmp_path / 'two' / 'config'}").authorization() == "Bearer abc"


def test_kopf_goes_the_same_way(tmp_path: pathlib.Path) -> None:
    secure: dict[str, Any] = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    way = _login(access(written(tmp_path, {"token": "abc"}, **secure)))
    assert (way.server, way.insecure, way.as_http_headers()) == (
        "https://127.0.0.1:1",
        True,
        {"Authorization": "Bearer abc"},
    )
    assert _login(access(written(tmp_path, {}))).as_http_headers() == {}
