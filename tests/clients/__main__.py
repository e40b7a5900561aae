"""Smoke scripts: real clients, unchanged, each in an environment of its own, against the runtime with SmolLM2.

`python -m tests.clients [NAME ...]`. uv makes the environments from the heads of the scripts, npm that of the one in
JavaScript; versions are pinned there. Not a part of the gate: it asks package registries.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.gate import LOGS, MODEL, ROOT, StageError, free_port, runtime, serving

HERE = Path(__file__).parent
NODE = ROOT / ".state/clients/node"
MINUTES = 8  # for one script, its environment included


def command(script: Path, url: str) -> list[str]:
    if script.suffix == ".py":
        return ["uv", "run", "--quiet", "--no-project", "--python", "3.11", "--script", str(script), url, MODEL]
    NODE.mkdir(parents=True, exist_ok=True)
    for file in (script, HERE / "package.json"):
        shutil.copy(file, NODE)
    subprocess.run(
        ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"],
        cwd=NODE,
        timeout=MINUTES * 60,
        check=True,
    )
    return ["node", str(NODE / script.name), url, MODEL]


def run(script: Path, url: str) -> str | None:
    """Why it failed, if it did."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            command(script, url), timeout=MINUTES * 60, check=False, capture_output=True, text=True, cwd=HERE
        )
    except (subprocess.SubprocessError, OSError) as e:
        return str(e)
    if done.returncode:
        return (done.stdout + done.stderr)[-3000:]
    print(f"{script.name:<24}{time.monotonic() - began:>7.1f} s   ok: {done.stdout.strip()}", flush=True)
    return None


def main(names: list[str]) -> int:
    scripts = [s for s in sorted(HERE.iterdir()) if s.suffix in (".py", ".mjs") and not s.name.startswith("__")]
    wanted = [s for s in scripts if not names or s.stem in names]
    port = free_port()
    with serving("clients-runtime", *runtime(port), port=port, seconds=300) as url:
        failures = {script.name: why for script in wanted if (why := run(script, url)) is not None}
    for name, why in failures.items():
        print(f"----- {name} FAILED\n{why}", flush=True)
    print(f"{len(wanted) - len(failures)} passed, {len(failures)} failed; the server's log is in {LOGS}")
    return 1 if failures or not wanted else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except StageError as e:
        sys.exit(str(e))
