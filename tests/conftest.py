"""For every test."""

import os
from pathlib import Path

from hypothesis import settings

from forebay_runtime.kernels import native

# A slow example says something of the machine's load and nothing of the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# `make sanitize` has the native kernels built a second time, with every access checked.
if "FOREBAY_TEST_KERNELS" in os.environ:
    native.FOLDER = Path(os.environ["FOREBAY_TEST_KERNELS"]).absolute()
