"""What a step costs besides the model: in the engine alone, and served over HTTP to streaming clients.

    python -m bench.step_overhead [--steps 400] [--batches 1 32] [--step-ms 8 25] [--idle 1000]

The model is a stand-in that takes as long as a step is said to take, asleep, and answers with numbers. `engine`: CPU
time of scheduling, book-keeping and finish routine in one thread, with drafts and without. `served`: CPU time of the
server's process for each step while every sequence of the batch streams to a client of its own, and how long a step
takes by the clock, there and in the engine alone. `idle`: CPU of a server with so many idle connections.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from forebay_runtime.adapter import AdapterError
from forebay_runtime.config import SchedulerConfig, ServerConfig
from forebay_runtime.drafting import NgramDrafter
from forebay_runtime.engine import Engine
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.scheduler import Scheduler
from forebay_runtime.scheduling.step import SampledTokens, Step, StepResult

ROOT = pathlib.Path(__file__).parents[1]
PROMPT = 64  # tokens
TICKS = os.sysconf("SC_CLK_TCK")


class Numbers:
    """A runner that answers with a number made from the length, which repeats itself now and then."""

    def __init__(self, step_seconds: float = 0.0) -> None:
        self._step_seconds = step_seconds
        self.cpu_seconds = 0.0  # its own, in the thread that calls it

    def execute(self, step: Step) -> StepResult:
        began, cpu = time.perf_counter(), time.thread_time()
        lengths = [s.sequence.num_tokens if s.samples else None for s in step.sequences]
        sampled = [SampledTokens() if n is None else SampledTokens((1000 + n * 7919 % 97,)) for n in lengths]
        self.cpu_seconds += time.thread_time() - cpu
        if self._step_seconds:
            time.sleep(max(0.0, self._step_seconds - (time.perf_counter() - began)))
        return StepResult(tuple(sampled))


def no_adapter(path: pathlib.Path) -> NoReturn:
    raise AdapterError(f"{path} is not served here")


def scheduler_config(batch: int, tokens: int) -> SchedulerConfig:
    num_blocks = batch * tokens // 16 + 2 * batch
    return SchedulerConfig(
        max_num_seqs=batch, max_num_batched_tokens=4096, max_model_len=1 << 20, num_blocks=num_blocks
    )


def decoding(runner: Numbers, batch: int, steps: int, num_drafts: int = 0) -> Engine:
    """An engine that has run its prompts and decodes from now on, for at least so many steps."""
    scheduler = Scheduler(scheduler_config(batch, PROMPT + steps * (1 + num_drafts)))
    engine = Engine(scheduler, runner, NgramDrafter(num_drafts) if num_drafts else None)
    for i in range(batch):
        prompt = tuple((i * 1000 + j) % 30000 for j in range(PROMPT))
        engine.add(Request(str(i), prompt, SamplingParams(max_tokens=1 << 19)))
    engine.step()
    return engine


def engine_seconds(batch: int, steps: int, step_seconds: float) -> float:
    """A step by the clock, without a server."""
    engine = decoding(Numbers(step_seconds), batch, steps)
    began = time.perf_counter()
    for _ in range(steps):
        engine.step()
    return (time.perf_counter() - began) / steps


def engine_microseconds(batch: int, steps: int, num_drafts: int) -> float:
    """CPU time of the engine's thread for a step of decodes, less the stand-in's own."""
    runner = Numbers()
    engine = decoding(runner, batch, steps, num_drafts)
    runner.cpu_seconds, began = 0.0, time.thread_time()
    for _ in range(steps):
        engine.step()
    return (time.thread_time() - began - runner.cpu_seconds) / steps * 1e6


def serve_stand_in(model: str, port: int, batch: int, step_seconds: float) -> None:
    """Forebay's server over the stand-in, with a real tokenizer. Runs until it is told to end."""
    import uvloop

    from forebay_runtime.server.adapters.registry import AdapterRegistry
    from forebay_runtime.server.app import make_application
    from forebay_runtime.server.listening import bind
    from forebay_runtime.server.served import Computing, Footprint, Served
    from forebay_runtime.server.serving import serve
    from forebay_runtime.text.grammar import GrammarCompiler
    from forebay_runtime.text.loading import load_tokenizer

    tokenizer, scheduler = load_tokenizer(pathlib.Path(model)), scheduler_config(batch, 8192)
    engine = Engine(Scheduler(scheduler), Numbers(step_seconds))
    grammars = GrammarCompiler(tokenizer, tokenizer.vocab_size)
    computing = Computing("torch", "none", "float32")
    footprint = Footprint(0, 0, 0, 0, "float32", 0, scheduler.max_model_len, scheduler.max_model_len)
    served = Served(
        engine,
        tokenizer,
        None,
        scheduler,
        tokenizer.vocab_size,
        "0",
        computing,
        footprint,
        grammars,
        AdapterRegistry(no_adapter, 0, 0),
    )
    config = ServerConfig("127.0.0.1", port, ("numbers",))
    with bind(config.host, config.port) as listener:
        uvloop.run(serve(partial(make_application, served, config), config, listener))


@dataclass(frozen=True, slots=True)
class Reading:
    """Of a server: when, the CPU seconds its process has used and the steps its engine has ended."""

    at: float
    cpu: float
    steps: int


@dataclass(frozen=True, slots=True)
class StandIn:
    port: int
    pid: int

    def read(self) -> Reading:
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            found = re.search(r"^forebay_engine_steps_total\S* (\S+)", reply.read().decode(), re.MULTILINE)
        assert found is not None
        return Reading(time.perf_counter(), (int(fields[11]) + int(fields[12])) / TICKS, int(float(found[1])))


@contextlib.contextmanager
def stand_in(model: str, batch: int, step_seconds: float) -> Iterator[StandIn]:
    """A server in a process of its own, ready."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "bench.step_overhead", "--model", model]
    command += ["--serve", str(port), "--batches", str(batch), "--step-ms", str(step_seconds * 1000)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield StandIn(port, process.pid)
    finally:
        process.kill()
        process.wait()


async def stream(port: int, tokens: int, began: asyncio.Semaphore) -> int:
    """Reads one stream to its end, as cheaply as can be; returns its events."""
    body = b'{"prompt":"%d is","max_tokens":%d,"ignore_eos":true,"stream":true,"model":"numbers"}' % (tokens, tokens)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    count = (await reader.readuntil(b"data: ")).count(b"data: ")
    began.release()
    while b"[DONE]" not in (data := await reader.read(1 << 16)):
        count += data.count(b"data: ")
    writer.close()
    return count


async def streaming(server: StandIn, batch: int, steps: int) -> tuple[Reading, Reading]:
    """Readings while every sequence streams: `steps` steps apart, or nearly."""
    began = asyncio.Semaphore(0)
    streams = [asyncio.ensure_future(stream(server.port, steps + 20, began)) for _ in range(batch)]
    for _ in streams:
        await began.acquire()
    first = await asyncio.to_thread(server.read)
    await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
    last = await asyncio.to_thread(server.read)
    await asyncio.gather(*streams)
    return first, last


async def idling(server: StandIn, connections: int, seconds: float) -> float:
    """Share of a core that a server uses with idle connections."""
    opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(connections)]
    await asyncio.sleep(1)
    first = await asyncio.to_thread(server.read)
    await asyncio.sleep(seconds)
    last = await asyncio.to_thread(server.read)
    for _, writer in opened:
        writer.close()
    return (last.cpu - first.cpu) / (last.at - first.at)


def report(options: argparse.Namespace) -> None:
    for batch, step_ms in zip(options.batches, options.step_ms, strict=True):
        for num_drafts in (0, 4):
            cost = engine_microseconds(batch, options.steps, num_drafts)
            print(f"engine, batch {batch}, {num_drafts} drafts: {cost:.0f} us of CPU a step", flush=True)
        alone = engine_seconds(batch, options.steps, step_ms / 1000)
        with stand_in(options.model, batch, step_ms / 1000) as server:
            first, last = asyncio.run(streaming(server, batch, options.steps))
        steps = last.steps - first.steps
        cpu, wall = (last.cpu - first.cpu) / steps, (last.at - first.at) / steps
        print(
            f"served, batch {batch}: {cpu * 1e6:.0f} us of CPU a step, {cpu / batch * 1e6:.0f} a token; "
            f"a step of {step_ms:g} ms takes {wall * 1000:.2f} by the clock, "
            f"{alone * 1000:.2f} in the engine alone: {wall / alone * 100 - 100:+.1f} %",
            flush=True,
        )
    with stand_in(options.model, 1, 0.001) as server:
        share = asyncio.run(idling(server, options.idle, 10))
        print(f"idle, {options.idle} connections: {share * 100:.2f} % of a core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=".models/smollm2", help="whose tokenizer to use")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--step-ms", type=float, nargs="+", default=[8.0, 25.0], help="one for each batch")
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve_stand_in(options.model, options.serve, options.batches[0], options.step_ms[0] / 1000)
    else:
        report(options)


if __name__ == "__main__":
    main()
