"""Keys of images: what changes them, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.cluster import content
from e2e.cluster.content import OPERATOR, RUNTIME, Keys
from e2e.cluster.images import superfluous
from e2e.cluster.state import CHECKOUT

DOCKERFILE = "FROM x AS dependencies\nRUN install\n\nFROM ${DEPENDENCIES}\nRUN code\n"
LOCKS = {"operator": b"a==1", "build": b"b==1"}
SOURCE = {"src/p/__init__.py": b"", "pyproject.toml": b"[project]"}


def keys(dockerfile: str = DOCKERFILE, locks: dict[str, bytes] = LOCKS, source: dict[str, bytes] = SOURCE) -> Keys:
    return content.keys(dockerfile, locks, source)


def test_code_changes_only_the_image() -> None:
    changed = keys(source=SOURCE | {"src/p/__init__.py": b"x = 1"})
    assert changed.dependencies == keys().dependencies
    assert changed.image != keys().image


def test_the_code_stage_changes_only_the_image() -> None:
    changed = keys(dockerfile=DOCKERFILE + "USER 65532\n")
    assert changed.dependencies == keys().dependencies
    assert changed.image != keys().image


@pytest.mark.parametrize(
    "changed",
    [keys(locks=LOCKS | {"operator": b"a==2"}), keys(dockerfile=DOCKERFILE.replace("install", "install --more"))],
    ids=["lock", "first stage"],
)
def test_dependencies_change_both(changed: Keys) -> None:
    assert changed.base == keys().base
    assert changed.dependencies != keys().dependencies
    assert changed.image != keys().image


def test_a_moved_boundary_between_files_changes_the_key() -> None:
    assert content.digest("ab", "c") != content.digest("a", "bc")
    assert keys(source={"a": b"1", "b": b"2"}).image != keys(source={"a": b"", "1b": b"2"}).image


def test_a_dockerfile_without_the_two_stages_is_refused() -> None:
    with pytest.raises(ValueError, match="DEPENDENCIES"):
        keys(dockerfile="FROM x\n")


def test_what_tools_leave_behind_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "src/p/__pycache__").mkdir(parents=True)
    (tmp_path / "src/p.egg-info").mkdir()
    for name in ("src/p/__pycache__/a.cpython-311.pyc", "src/p.egg-info/PKG-INFO", "src/p/b.pyc", "src/p/a.py"):
        (tmp_path / name).write_text("x")
    assert list(content.read_tree(tmp_path)) == ["src/p/a.py"]


@pytest.mark.parametrize("package", [OPERATOR, RUNTIME], ids=lambda package: package.name)
def test_the_checkouts_own_dockerfiles_have_keys(package: content.Package) -> None:
    found = content.read_keys(CHECKOUT, package)
    assert len({found.base, found.dependencies, found.image}) == 3


def test_images_that_nothing_is_made_of_are_superfluous() -> None:
    assert superfluous(["l/a:1", "l/a:2", "l/b:1"], ["l/a:2", "l/c:1"]) == ("l/a:1", "l/b:1")
