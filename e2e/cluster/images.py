"""Builds the images, in a store of their own under FOREBAY_STATE, and only those whose content has changed."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e import models
from e2e.cluster import content
from e2e.cluster.content import OPERATOR, RUNTIME, Keys, Package
from e2e.cluster.shell import CommandError, Shell
from e2e.cluster.state import State

LOCAL = "localhost/forebay"
MODEL_REPOSITORY, MODEL_TAG = "models/smollm2", "0.1.2"
"""The tag is the version of the package that the model comes from: its content never changes."""
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "timeout", "default-timeout")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The local names of everything that this checkout needs, and the copy of it that they are built from."""

    source: Path
    operator: Keys
    runtime: Keys

    @property
    def base(self) -> str:
        return f"{LOCAL}/base:{self.operator.base}"

    @property
    def model(self) -> str:
        return f"{LOCAL}/{MODEL_REPOSITORY}:{MODEL_TAG}"

    @property
    def names(self) -> tuple[str, ...]:
        packages = ((OPERATOR, self.operator), (RUNTIME, self.runtime))
        layered = [name for package, keys in packages for name in (dependencies(package, keys), image(package, keys))]
        return (self.base, kernels(self.runtime), *layered, self.model)


def dependencies(package: Package, keys: Keys) -> str:
    return f"{LOCAL}/{package.name}-dependencies:{keys.dependencies}"


def kernels(keys: Keys) -> str:
    return f"{LOCAL}/kernels:{keys.kernels}"


def image(package: Package, keys: Keys) -> str:
    return f"{LOCAL}/{package.repository}:{keys.image}"


def wanted(source: Path) -> Wanted:
    return Wanted(source, content.read_keys(source, OPERATOR), content.read_keys(source, RUNTIME))


def superfluous(there: Iterable[str], needed: Iterable[str]) -> tuple[str, ...]:
    """Those of our images that nothing of this checkout is made of any more."""
    keep = set(needed)
    return tuple(name for name in there if name not in keep)


class Builder:
    def __init__(self, shell: Shell, state: State) -> None:
        self.shell = shell
        self.scratch = state.scratch
        store = state.images / "buildah"
        self.buildah = (
            *("buildah", "--storage-driver", "overlay"),
            *("--root", str(store / "storage"), "--runroot", str(store / "run")),
        )
        self.store = store

    def run(self, *argv: str | Path, seconds: float) -> None:
        self.shell.run(*self.buildah, *argv, seconds=seconds, env={"TMPDIR": str(self.scratch)})

    def names(self) -> tuple[str, ...]:
        listed = self.shell.read(*self.buildah, "images", "--format", "{{.Name}}:{{.Tag}}", seconds=60)
        return tuple(line for line in listed.split() if not line.startswith("<none>"))

    def open(self, say: Callable[[str], None]) -> tuple[str, ...]:
        """The images there. A store that a cut-off run has broken is thrown away."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        try:
            if self.shell.read(*self.buildah, "containers", "--quiet", seconds=60).split():
                self.run("rm", "--all", seconds=120)
            return self.names()
        except CommandError as error:
            say(f"the image store is broken and is made anew: {str(error).splitlines()[-1].strip()}")
            shutil.rmtree(self.store, ignore_errors=True)
            return self.names()

    def build(self, dockerfile: Path, context: Path, name: str, *options: str, seconds: float) -> None:
        fixed = ("--isolation", "chroot", "--network", "host", "--pull-never", "--layers=false")
        self.run("build", *fixed, *options, "--file", dockerfile, "--tag", name, context, seconds=seconds)

    def base(self, name: str) -> None:
        context = self.scratch / "base"
        context.mkdir(parents=True, exist_ok=True)
        *options, suite = content.BASE_RECIPE
        env = {"TMPDIR": str(self.scratch)}
        self.shell.run("mmdebstrap", *options, suite, context / "base.tar", seconds=900, env=env)
        (context / "Dockerfile").write_text('FROM scratch\nADD base.tar /\nCMD ["bash"]\n')
        self.build(context / "Dockerfile", context, name, seconds=300)
        shutil.rmtree(context)

    def dependencies(self, source: Path, package: Package, keys: Keys, base: str) -> None:
        secrets = []
        (self.scratch / "pip.conf").write_text(pip_conf(self.pip_settings()))
        for secret, file in (("pip.conf", self.scratch / "pip.conf"), ("ca.crt", CA_BUNDLE)):
            secrets += ["--secret", f"id={secret},src={file}"]
        options = ("--target", "dependencies", "--build-arg", f"BASE={base}", *secrets)
        name = dependencies(package, keys)
        self.build(source / f"Dockerfile.{package.name}", source, name, *options, seconds=2400)

    def kernels(self, source: Path, keys: Keys, base: str) -> None:
        options = ("--target", "kernels", "--build-arg", f"BASE={base}")
        self.build(source / f"Dockerfile.{RUNTIME.name}", source, kernels(keys), *options, seconds=1800)

    def image(self, source: Path, package: Package, keys: Keys) -> None:
        options = ["--build-arg", f"DEPENDENCIES={dependencies(package, keys)}"]
        if package == RUNTIME:
            options += ["--build-arg", f"KERNELS={kernels(keys)}"]
        self.build(source / f"Dockerfile.{package.name}", source, image(package, keys), *options, seconds=600)

    def model(self, name: str) -> None:
        sample = next(sample for sample in models.SAMPLES if sample.name == "smollm2")
        if not models.ready(sample):
            models.fetch(sample)
        folder = models.MODELS / sample.name
        dockerfile = self.scratch / "Dockerfile.model"
        dockerfile.write_text("FROM scratch\nCOPY . /\n")
        self.build(dockerfile, folder, name, seconds=300)

    def pip_settings(self) -> dict[str, str]:
        """As `pip config list` tells them, from files and the environment alike."""
        # of the interpreter below a virtual environment, which may have none
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}"
        listed = self.shell.read(python, "-m", "pip", "config", "list", seconds=30)
        pairs = (line.split("=", 1) for line in listed.splitlines() if "=" in line)
        return {key.rsplit(".", 1)[-1]: shlex.split(value)[0] for key, value in pairs if shlex.split(value)}


def build(shell: Shell, state: State, need: Wanted, say: Callable[[str], None]) -> str:
    """What is there already is not made again; what nothing is made of any more goes."""
    builder = Builder(shell, state)
    there = builder.open(say)
    made = []

    def missing(name: str, what: str) -> bool:
        if name in there:
            return False
        say(f"building {what}")
        made.append(what)
        return True

    if missing(need.base, "the base (Debian)"):
        builder.base(need.base)
    if missing(kernels(need.runtime), "the native kernels"):
        builder.kernels(need.source, need.runtime, need.base)
    for package, keys, what in ((OPERATOR, need.operator, ""), (RUNTIME, need.runtime, ", mostly torch: minutes")):
        if missing(dependencies(package, keys), f"the {package.name}'s dependencies{what}"):
            builder.dependencies(need.source, package, keys, need.base)
        if missing(image(package, keys), f"the {package.name}"):
            builder.image(need.source, package, keys)
    if missing(need.model, "the sample model"):
        builder.model(need.model)
    old = superfluous(builder.names(), need.names)
    if old:
        builder.run("rmi", "--force", *old, seconds=300)
    if made:
        return f"built {', '.join(made)}"
    return "nothing has changed"


def pip_conf(settings: dict[str, str]) -> str:
    """What of the machine's pip settings matters inside a build; the certificates are handed in as a secret."""
    kept = [f"{key} = {settings[key]}" for key in PIP_SETTINGS if key in settings]
    return "\n".join(["[global]", "cert = /run/secrets/ca.crt", *kept, ""])
