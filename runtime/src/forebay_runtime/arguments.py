"""The command line: what may be said on it, and the configs that are meant."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import NoReturn

from forebay_runtime import __version__
from forebay_runtime.config import AdapterOptions, ModelOptions, SchedulerOptions, ServerConfig
from forebay_runtime.failures import StartUpError

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, so that it can be a container's last word."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    top = _Parser("forebay-runtime", description="A batching LLM engine behind an OpenAI-compatible server.")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True, parser_class=_Parser)
    _add_serve(commands.add_parser("serve", help="serve a model over HTTP", allow_abbrev=False))
    _add_fetch(commands.add_parser("fetch", help="bring a model from a hub or a bucket", allow_abbrev=False))
    _add_quantize(commands.add_parser("quantize", help="save a model quantized, for faster starts", allow_abbrev=False))
    commands.add_parser("info", help="tell what this machine offers", allow_abbrev=False)
    return top


def _add_fetch(fetch: argparse.ArgumentParser) -> None:
    add = fetch.add_argument
    add("source", metavar="SOURCE", help="hf://ORG/NAME[@REVISION] or s3://BUCKET[/PREFIX]")
    add("directory", type=Path, help="what is there of it already is gone on with")
    add("--most", type=quantity, metavar="BYTES", help="refuse what is more; default: what the file system has free")
    add("--host", default="127.0.0.1", help="address that tells how far it is (default: 127.0.0.1)")
    add("--port", type=_port, default=0, help="default: any that is free")
    add("--stall-budget", type=_seconds, default=300.0, metavar="SECONDS",
        help="without a byte that comes: the process ends")  # fmt: skip


def _add_quantize(quantize: argparse.ArgumentParser) -> None:
    add = quantize.add_argument
    add("model", help="a Hugging Face directory, a .gguf file or a directory with one")
    add("directory", type=Path, metavar="OUT", help="a new directory, which `serve` takes as its model")
    add("--quantization", choices=("int8", "int4"), required=True)
    add("--threads", type=_positive, metavar="N", help="default: the CPU quota")


def _add_serve(serve: argparse.ArgumentParser) -> None:
    add = serve.add_argument
    add("model", help="a Hugging Face directory, a .gguf file or a directory with one")
    add("--host", default="0.0.0.0", help="address to listen on (default: all)")
    add("--port", type=_port, default=8000)
    add(
        "--served-model-name", action="append", metavar="NAME", help="may be given again; default: the path's last part"
    )
    add("--api-key", type=_api_key, default=os.environ.get("FOREBAY_API_KEY"), help="default: FOREBAY_API_KEY")
    add(
        "--lora",
        action="append",
        default=[],
        type=_named_path,
        metavar="NAME=PATH",
        help="an adapter in PEFT's form, to be asked for by NAME; may be given again",
    )
    add(
        "--lora-root",
        type=_directory,
        metavar="DIRECTORY",
        help="below it requests may load adapters from; default: they may not",
    )
    add("--max-lora-rank", type=_positive, default=64, metavar="R", help="of an adapter (default: 64)")
    add("--max-loras", type=_positive, default=64, metavar="N", help="adapters loaded at a time (default: 64)")
    add("--tool-call-parser", choices=("auto", "hermes", "llama3", "mistral", "gemma"), default="auto")
    add("--reasoning-parser", choices=("auto", "none", "think"), default="auto", help="think: <think> … </think>")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--dtype", choices=("auto", "bfloat16", "float16", "float32", "float64"), default="auto")
    add("--quantization", choices=("auto", "none", "int8", "int4"), default="auto",
        help="of the weights, on load; auto: int8 by the native CPU kernels, else none")  # fmt: skip
    add("--kv-cache-dtype", choices=("auto", "bfloat16", "float32", "int8"), default="auto",
        help="int8: half the memory, on a CPU")  # fmt: skip
    add("--kernels", choices=("auto", "native", "torch"), default="auto", help="what computes on a CPU")
    add("--max-model-len", type=_positive, metavar="TOKENS", help="default: the model's own, as far as memory goes")
    add("--max-num-seqs", type=_positive, metavar="N", help="sequences in one batch")
    add("--max-num-batched-tokens", type=_positive, metavar="TOKENS", help="tokens of one step")
    add("--max-num-waiting", type=_count, default=256, metavar="N", help="sequences that may queue (default: 256)")
    add("--block-size", type=_positive, default=16, metavar="TOKENS")
    add("--kv-cache-memory", type=quantity, metavar="BYTES", help="bytes, or a quantity such as 2Gi")
    add("--prefix-caching", choices=("on", "off"), default="on")
    add("--speculative", choices=("none", "ngram"), default="none")
    add("--num-speculative-tokens", type=_positive, default=4, metavar="N", help="with --speculative (default: 4)")
    add("--drain-grace", type=_seconds, default=30.0, metavar="SECONDS", help="for what runs at SIGTERM (default: 30)")
    add("--stall-budget", type=_seconds, default=60.0, metavar="SECONDS", help="without a step: /health says 503")
    add("--load-budget", type=_seconds, default=300.0, metavar="SECONDS",
        help="without a byte read while loading: the process ends")  # fmt: skip
    add("--pooling", choices=("mean", "last"), default="mean", help="of embeddings, unless asked otherwise")
    add("--request-timeout", type=_seconds, metavar="SECONDS", help="for a whole answer; default: as long as it takes")
    add("--strict-fields", action="store_true", help="refuse fields that nobody here knows, instead of telling of them")
    add("--threads", type=_positive, metavar="N", help="for computing; default: the CPU quota")
    add("--log-level", choices=("debug", "info", "warning", "error"), default="info")


def model_options(args: argparse.Namespace) -> ModelOptions:
    return ModelOptions(
        path=args.model,
        dtype=args.dtype,
        device=args.device,
        quantization=args.quantization,
        kv_cache_dtype=args.kv_cache_dtype,
        kernels=args.kernels,
        max_model_len=args.max_model_len,
        threads=args.threads,
    )


def scheduler_options(args: argparse.Namespace) -> SchedulerOptions:
    return SchedulerOptions(
        max_model_len=args.max_model_len,
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        max_num_waiting=args.max_num_waiting,
        block_size=args.block_size,
        kv_cache_memory=args.kv_cache_memory,
        prefix_caching=args.prefix_caching == "on",
        num_speculative_tokens=args.num_speculative_tokens if args.speculative == "ngram" else 0,
    )


def adapter_options(args: argparse.Namespace, config: ServerConfig) -> AdapterOptions:
    names = [name for name, _ in args.lora]
    taken = next((name for i, name in enumerate(names) if name in (*config.served_names, *names[:i])), None)
    if taken is not None:
        raise StartUpError(f"--lora {taken}: the name is taken, by the model or by another adapter")
    return AdapterOptions(tuple(args.lora), args.max_lora_rank, args.max_loras)


def _names_of_the_model(names: list[str], of_adapters: set[str]) -> tuple[str, ...]:
    """Further names may be adapters': the gateway routes by names, and need not know what they stand for."""
    return (names[0], *(name for name in names[1:] if name not in of_adapters))


def server_config(args: argparse.Namespace) -> ServerConfig:
    path = Path(args.model).resolve()
    own = path.stem if path.suffix == ".gguf" else path.name
    return ServerConfig(
        host=args.host,
        port=args.port,
        served_names=_names_of_the_model(args.served_model_name or [own], {name for name, _ in args.lora}),
        api_key=args.api_key,
        tool_call_parser=None if args.tool_call_parser == "auto" else args.tool_call_parser,
        reasoning=None if args.reasoning_parser == "auto" else args.reasoning_parser == "think",
        drain_grace=args.drain_grace,
        stall_budget=args.stall_budget,
        load_budget=args.load_budget,
        request_timeout=args.request_timeout,
        strict_fields=args.strict_fields,
        pooling=args.pooling,
        lora_root=args.lora_root,
    )


def quantity(text: str) -> int:
    """Bytes of a Kubernetes quantity: 1500000, 2Gi, 1.5G."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(k|M|G|T|Ki|Mi|Gi|Ti)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no quantity of bytes such as 2Gi")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def _positive(text: str) -> int:
    return _whole(text, 1)


def _count(text: str) -> int:
    return _whole(text, 0)


def _port(text: str) -> int:
    port = _whole(text, 0)
    if port > 65535:
        raise argparse.ArgumentTypeError(f"{port} is no port")
    return port


def _whole(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _named_path(text: str) -> tuple[str, str]:
    name, found, path = text.partition("=")
    if not (found and name.strip() and path):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=PATH")
    return name, path


def _directory(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no directory")
    return Path(text)


def _api_key(text: str) -> str:
    """An empty key, say of a Secret without content, must not open the server to all."""
    if not text.strip() or text != text.strip():
        raise argparse.ArgumentTypeError("the API key is empty or has blanks around it")
    return text
