"""The served process's torch lacks what the compiler wants, and computes all the same."""

from __future__ import annotations

import subprocess
import sys

_SERVED = """
import sys
from forebay_runtime.lean_torch import spare_meta_kernels
spare_meta_kernels()
import torch
assert not vars(sys.modules["torch._meta_registrations"]).get("activate_meta"), "torch imported its meta kernels"
x = torch.arange(6.0).view(2, 3)
print(torch.softmax(x @ x.T, dim=-1).sum().item(), torch.sort(x[1], descending=True).indices.tolist())
"""


def test_torch_computes_without_its_meta_kernels() -> None:
    done = subprocess.run([sys.executable, "-c", _SERVED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "2.0 [2, 1, 0]\n"), done.stderr


def test_a_torch_that_is_there_is_left_alone() -> None:
    import torch._meta_registrations as there

    from forebay_runtime.lean_torch import spare_meta_kernels

    spare_meta_kernels()
    assert sys.modules["torch._meta_registrations"] is there
