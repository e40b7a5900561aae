"""The chart brings the kind, the same as crds/ holds it, in a way that upgrades update."""

from collections.abc import Callable

import yaml

from tests.chart.conftest import CHART, ROOT, Manifest

Render = Callable[..., list[Manifest]]
SOURCE = ROOT / "crds" / "inferenceservices.yaml"


def crd_of(manifests: list[Manifest]) -> list[Manifest]:
    return [m for m in manifests if m["kind"] == "CustomResourceDefinition"]


def test_the_charts_copy_is_the_generated_file() -> None:
    assert (CHART / "files" / "inferenceservices.yaml").read_bytes() == SOURCE.read_bytes(), "run `make crds`"


def test_rendering_adds_nothing_but_labels_and_the_keep_annotation(render: Render) -> None:
    (made,) = crd_of(render())
    expected = yaml.safe_load(SOURCE.read_text())
    assert made["spec"] == expected["spec"]
    assert made["metadata"]["name"] == expected["metadata"]["name"]
    assert made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_it_is_a_template_so_that_an_upgrade_updates_it() -> None:
    assert not (CHART / "crds").exists(), "Helm installs what lies in crds/ once and never again"


def test_uninstalling_can_take_the_kind_along_and_installing_can_leave_it(render: Render) -> None:
    (made,) = crd_of(render("crds.keep=false"))
    assert "helm.sh/resource-policy" not in made["metadata"].get("annotations", {})
    assert crd_of(render("crds.install=false")) == []
