"""An adapter as requests name it: what is added to the model for them. No torch."""

from __future__ import annotations

from dataclasses import dataclass


class AdapterError(Exception):
    """It can't be served, and trying again changes nothing. The message is one line that names what is at fault."""


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """One load of one name. `key`: no other load's, so that blocks of the prefix cache never outlive what filled them.

    Whoever holds it can go on with it, whatever has become of the name. `weights`: execution's own.
    """

    key: str
    weights: object
