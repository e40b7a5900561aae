"""What the operator is told at its start; it flows down from the command line and never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from forebay_operator.profiles import Profile


@dataclass(frozen=True, slots=True)
class Config:
    """`service_account` (namespace/name) and `credentials_role` together let the operator read the Secrets of those
    namespaces alone whose resources name one: docs/adr/0020-credentials-by-role-binding.md. Without them it reads with
    the rights it has."""

    runtime_image: str
    own_image: str  # this operator's, of which pods run a program too: drain_gate.py
    engine_images: Mapping[str, str] = field(default_factory=dict)  # engine type -> image, beside the runtime's
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    image_pull_policy: str = "IfNotPresent"
    service_account: str = ""
    credentials_role: str = ""
    resync: timedelta = timedelta(minutes=5)

    @property
    def namespace(self) -> str:
        """Where Forebay itself runs; empty where it was not told."""
        return self.service_account.partition("/")[0]

    def image(self, engine: str) -> str | None:
        """What runs an engine where the spec names no image."""
        return self.runtime_image if engine == "forebay" else self.engine_images.get(engine)
