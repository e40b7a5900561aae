"""forebay-runtime: serve, fetch, quantize, info."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from forebay_runtime import __version__
from forebay_runtime.arguments import adapter_options, model_options, parser, scheduler_options, server_config
from forebay_runtime.config import AdapterOptions, ModelOptions, SchedulerOptions, ServerConfig
from forebay_runtime.failures import BrokenEngine, StartUpError
from forebay_runtime.progress import Progress
from forebay_runtime.progress_bar import progress_bar

log = logging.getLogger("forebay_runtime")


# How long torch's threads spin for each other before they sleep. Its library's own choice, some milliseconds, makes
# every operation ten times slower once anything else wants the cores: a thread spins while its fellow isn't running.
SPINS = "1000"


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    signal.signal(signal.SIGTERM, _end_at_once)
    try:
        match args.command:
            case "serve":
                return _serve(args)
            case "fetch":
                return _fetch(args)
            case "quantize":
                return _quantize(args)
            case _:
                return _info()
    except KeyboardInterrupt:
        return _fail("interrupted")


def _serve(args: argparse.Namespace) -> int:
    began = time.monotonic()
    logging.basicConfig(
        level=args.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    config = server_config(args)
    try:
        _run(model_options(args), scheduler_options(args), adapter_options(args, config), config, began)
    except (StartUpError, BrokenEngine) as e:
        return _fail(str(e))
    except Exception as e:
        log.exception("this is a fault of forebay-runtime's own")
        return _fail(f"{type(e).__name__}: {e}")


def _run(
    model: ModelOptions, options: SchedulerOptions, adapters: AdapterOptions, config: ServerConfig, began: float
) -> NoReturn:
    from forebay_runtime.server.listening import bind
    from forebay_runtime.server.loading import LoadingServer

    with bind(config.host, config.port) as listener:
        progress = Progress()
        with LoadingServer(listener, progress, config.load_budget), progress_bar(progress, sys.stderr):
            from forebay_runtime.build import build

            served = build(model, options, progress, adapters)
        log.info(
            "%s is loaded after %.1f s: context %d, %d KV blocks of %d, %d sequences and %d tokens a step",
            *(config.served_names[0], time.monotonic() - began, served.scheduler.max_model_len),
            *(served.scheduler.num_blocks, served.scheduler.block_size, served.scheduler.max_num_seqs),
            served.scheduler.max_num_batched_tokens,
        )
        import uvloop

        from forebay_runtime.server.app import make_application
        from forebay_runtime.server.serving import serve

        gc.freeze()  # what start-up made stays; to look for garbage in it would stop every stream for 0.1 s
        log.info("listening on http://%s:%d", *listener.getsockname()[:2])
        uvloop.run(serve(partial(make_application, served, config), config, listener))
    _leave()


def _leave() -> NoReturn:
    """All is answered. Python would take apart torch and the weights, and a pod would linger for that second."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _quantize(args: argparse.Namespace) -> int:
    from forebay_runtime.build import quantize

    options = ModelOptions(
        args.model, device="cpu", quantization=args.quantization, kernels="native", threads=args.threads
    )
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    try:
        progress = Progress()
        with progress_bar(progress, sys.stderr):
            quantize(options, args.directory, progress)
    except StartUpError as e:
        return _fail(str(e))
    return 0


def _fetch(args: argparse.Namespace) -> int:
    from forebay_runtime.fetch import fetch
    from forebay_runtime.server.listening import bind
    from forebay_runtime.server.loading import LoadingServer

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    progress = Progress("downloading")
    try:
        with (
            bind(args.host, args.port) as listener,
            LoadingServer(listener, progress, args.stall_budget),
            progress_bar(progress, sys.stderr),
        ):
            fetch(args.source, args.directory, progress, args.most)
    except StartUpError as e:
        return _fail(str(e))
    print(f"{args.source} is in {args.directory}")
    return 0


def _info() -> int:
    import torch

    from forebay_runtime import machine
    from forebay_runtime.kernels.native import instruction_sets, native_library

    library = native_library()
    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    about = {
        "version": __version__,
        "torch": torch.__version__,
        "cpus": machine.cpus(),
        "cpu_kernels": None if library is None else library.name,
        "cpu_instruction_sets": instruction_sets(),
        "available_memory": machine.available_memory(),
        "cuda_devices": cuda,
    }
    print(json.dumps(about, indent=2))
    return 0


def _end_at_once(number: int, _frame: object) -> NoReturn:
    """Until the server drains: process 1 of a container would otherwise ignore the signal, and its pod would linger."""
    os._exit(128 + number)


def _fail(message: str) -> int:
    print(f"forebay-runtime: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
