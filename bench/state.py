"""Where what is large and can be made again lies: outside the checkout, one copy a machine."""

import os
from pathlib import Path

STATE = Path(os.environ.get("FOREBAY_STATE", "/var/lib/forebay")) / "bench"
