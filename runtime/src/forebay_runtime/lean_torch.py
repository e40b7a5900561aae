"""torch, without what only its compiler wants: a third less to import (docs/adr/0042-torch-without-meta-kernels.md)."""

from __future__ import annotations

import sys
import types

_META_KERNELS = "torch._meta_registrations"


def spare_meta_kernels() -> None:
    """Before torch is imported for the first time; afterwards it changes nothing.

    torch then finds the module that computes shapes of tensors without numbers already there, and empty.
    """
    if "torch" not in sys.modules:
        sys.modules.setdefault(_META_KERNELS, types.ModuleType(_META_KERNELS))
