"""The `forebay` command: each program is imported only when it is asked for, so that none carries another's memory."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

PROGRAMS = {
    "operator": ("forebay_operator.app", "turn InferenceServices into what serves them"),
    "gateway": ("forebay_operator.gateway.app", "one OpenAI endpoint for all models"),
    "adapter": ("forebay_operator.metrics.app", "custom metrics for the autoscaler"),
    "drain-gate": ("forebay_operator.drain_gate", "hold back the end of an engine until it has no request left"),
    "crds": ("forebay_operator.crd", "print the CustomResourceDefinition"),
}


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="forebay", description="Forebay's control plane.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, purpose) in PROGRAMS.items():
        command = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        if name == next((w for w in words if not w.startswith("-")), None):
            program: Any = importlib.import_module(module)
            program.add_arguments(command)
            command.set_defaults(run=program.run)
    arguments = parser.parse_args(words)
    return int(arguments.run(arguments) or 0)


if __name__ == "__main__":
    sys.exit(main())
