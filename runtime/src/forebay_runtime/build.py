"""The composition root: from options to a model that can be asked."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forebay_runtime import __version__, machine
from forebay_runtime.adapter import AdapterError
from forebay_runtime.config import (
    NO_ADAPTERS,
    AdapterOptions,
    Capacity,
    ConfigError,
    ModelOptions,
    SchedulerConfig,
    SchedulerOptions,
    resolve,
)
from forebay_runtime.drafting import NgramDrafter
from forebay_runtime.engine import Engine
from forebay_runtime.failures import StartUpError
from forebay_runtime.lean_torch import spare_meta_kernels
from forebay_runtime.progress import Progress
from forebay_runtime.request import Request, SamplingParams
from forebay_runtime.scheduling.scheduler import Scheduler
from forebay_runtime.server.adapters.registry import AdapterRegistry
from forebay_runtime.server.served import Computing, Footprint, Served
from forebay_runtime.text.chat import ChatTemplate
from forebay_runtime.text.errors import TokenizerError
from forebay_runtime.text.grammar import GrammarCompiler
from forebay_runtime.text.loading import load_tokenizer
from forebay_runtime.text.saving import save_tokenizer
from forebay_runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from forebay_runtime.execution.runner import Runner
    from forebay_runtime.models.loader import LoadedModel
    from forebay_runtime.models.low_rank import AdapterWeights

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Text:
    tokenizer: Tokenizer
    template: ChatTemplate | None


def build(
    model: ModelOptions, options: SchedulerOptions, progress: Progress, adapter_options: AdapterOptions = NO_ADAPTERS
) -> Served:
    """Loads and warms up. StartUpError says in one line why a model can't be served."""
    try:
        text, loaded = _load(model, progress)
        at_start = _read_adapters(loaded, adapter_options)
        capacity = _capacity(loaded)
        config = resolve(options, capacity)
    except (TokenizerError, ConfigError) as e:
        raise StartUpError(str(e)) from e
    runner = _runner(loaded, config)
    drafter = NgramDrafter(config.num_speculative_tokens) if config.num_speculative_tokens else None
    _warm_up(runner, config, text)
    engine = Engine(Scheduler(config), runner, drafter)
    text.tokenizer.eos_token_ids |= loaded.eos_token_ids
    computing, footprint = _computing(loaded), _footprint(loaded, config)
    grammars = GrammarCompiler(text.tokenizer, loaded.vocab_size)
    return Served(
        engine,
        text.tokenizer,
        text.template,
        config,
        loaded.vocab_size,
        __version__,
        computing,
        footprint,
        grammars,
        _registry(loaded, adapter_options, at_start, capacity.memory - footprint.kv_bytes),
    )


def quantize(model: ModelOptions, directory: Path, progress: Progress) -> None:
    """Leaves the model in `directory`, quantized and packed, with all that serving it needs; nothing where that fails.
    StartUpError.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise StartUpError(f"{directory} is not empty: nothing is written over")
        with _emptied_on_failure(directory):
            save_tokenizer(Path(model.path), directory)
            loaded = _load_model(model, progress, save_to=directory)
            _check_match(load_tokenizer(directory), loaded)
    except TokenizerError as e:
        raise StartUpError(str(e)) from e
    except OSError as e:
        raise StartUpError(what_failed(e, Path(model.path), directory)) from e


@contextlib.contextmanager
def _emptied_on_failure(directory: Path) -> Iterator[None]:
    """Half a model would be taken for one, or stand in the way of the next try."""
    try:
        yield
    except BaseException:
        for path in directory.iterdir():
            path.unlink()
        raise


def what_failed(error: OSError, source: Path, directory: Path) -> str:
    """In one line. A copy that fails names both files, a write to an open file none."""
    files = [Path(os.fsdecode(name)) for name in (error.filename2, error.filename) if name is not None]
    if any(file.is_relative_to(directory) for file in files):
        return f"{directory} can't be written: {error.strerror}"
    if files:
        return f"{files[0]} can't be read: {error.strerror}"
    return f"{source} can't be saved in {directory}: {error.strerror}"


def _read_text(path: Path) -> Text:
    """Imports hold the interpreter, reading weights doesn't: all but torch's wait until the weights are being read."""
    tokenizer = load_tokenizer(path)
    import forebay_runtime.models.loader  # the other thread imports it, and torch: here this only waits

    template = None if tokenizer.chat_template is None else ChatTemplate(tokenizer.chat_template, tokenizer)
    import forebay_runtime.server.app
    import forebay_runtime.server.serving  # noqa: F401, so that they are there once the model is

    return Text(tokenizer, template)


def _load(model: ModelOptions, progress: Progress) -> tuple[Text, LoadedModel]:
    """The tokenizer is read while torch is being imported, which takes seconds."""
    spare_meta_kernels()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_read_text, Path(model.path))
        loaded = _load_model(model, progress)
        text = reading.result()
    _check_match(text.tokenizer, loaded)
    return text, loaded


def _load_model(model: ModelOptions, progress: Progress, save_to: Path | None = None) -> LoadedModel:
    from forebay_runtime.models.errors import ModelError
    from forebay_runtime.models.loader import load

    threads = model.threads or max(1, int(machine.cpus()))
    try:
        return load(dataclasses.replace(model, threads=threads), progress, save_to)
    except ModelError as e:
        raise StartUpError(str(e)) from e


def _computing(loaded: LoadedModel) -> Computing:
    kernels = "torch" if loaded.library is None else loaded.library.name
    computing = Computing(kernels, loaded.quantization, str(loaded.dtype).removeprefix("torch."))
    log.info(
        "%d million parameters in %d MB; weights: %s; KV cache: %s; kernels: %s",
        loaded.num_parameters // 1_000_000,
        loaded.weight_bytes // 1_000_000,
        computing.dtype if computing.quantization == "none" else computing.quantization,
        str(loaded.kv_dtype).removeprefix("torch."),
        f"native, {kernels}" if loaded.library else "torch operations",
    )
    return computing


def _read_adapters(loaded: LoadedModel, options: AdapterOptions) -> list[AdapterWeights]:
    """Those of the start are read before the KV cache takes its share of the memory that is left."""
    from forebay_runtime.models.peft import read_adapter

    weights = []
    for name, path in options.at_start:
        try:
            weights.append(read_adapter(Path(path), loaded, options.max_rank))
        except AdapterError as e:
            raise StartUpError(f"--lora {name}: {e}") from e
    return weights


def _registry(
    loaded: LoadedModel, options: AdapterOptions, at_start: Sequence[AdapterWeights], free: int
) -> AdapterRegistry:
    """`free`: bytes beside weights and KV cache. Adapters that come later get half of it, what steps and requests need
    the other.
    """
    from forebay_runtime.models.peft import read_adapter

    memory = sum(weights.nbytes for weights in at_start) + max(free, 0) // 2
    adapters = AdapterRegistry(lambda path: read_adapter(path, loaded, options.max_rank), options.most, memory)
    for (name, path), weights in zip(options.at_start, at_start, strict=True):
        try:
            adapters.check_room(name)
            adapters.put(name, path, weights)
        except AdapterError as e:
            raise StartUpError(f"--lora {name}: {e}") from e
    return adapters


def _footprint(loaded: LoadedModel, config: SchedulerConfig) -> Footprint:
    """Once all is warm: what the process holds beside weights stays as it is."""
    in_memory = loaded.weight_bytes if loaded.device.type == "cpu" else 0
    return Footprint(
        parameters=loaded.num_parameters,
        weight_bytes=loaded.weight_bytes,
        kv_bytes_per_token=loaded.kv_bytes_per_token,
        kv_bytes=config.num_blocks * config.block_size * loaded.kv_bytes_per_token,
        kv_dtype=str(loaded.kv_dtype).removeprefix("torch."),
        other_bytes=max(machine.held_memory() - in_memory, 0),
        context=config.max_model_len,
        model_context=loaded.config.max_position,
    )


def _runner(loaded: LoadedModel, config: SchedulerConfig) -> Runner:
    from forebay_runtime.execution.runner import Runner

    return Runner(loaded, num_blocks=config.num_blocks, block_size=config.block_size)


def _check_match(tokenizer: Tokenizer, loaded: LoadedModel) -> None:
    """An embedding may have spare rows; a tokenizer must not have spare tokens."""
    if tokenizer.vocab_size > loaded.vocab_size:
        raise TokenizerError(
            f"the tokenizer does not match the model: it has {tokenizer.vocab_size} tokens, the model's embedding "
            f"{loaded.vocab_size} rows"
        )


def _capacity(loaded: LoadedModel) -> Capacity:
    cuda = loaded.device.type == "cuda"
    return Capacity(
        context=loaded.max_model_len,
        kv_bytes_per_token=loaded.kv_bytes_per_token,
        block_multiple=loaded.block_multiple,
        memory=_free_cuda_memory(loaded) if cuda else machine.available_memory(),
        cpus=machine.cpus(),
        accelerator=cuda,
    )


def _free_cuda_memory(loaded: LoadedModel) -> int:
    import torch

    free, _ = torch.cuda.mem_get_info(loaded.device)
    return free


def _warm_up(runner: Runner, config: SchedulerConfig, text: Text) -> None:
    """One prompt and a few tokens, through a scheduler that is thrown away: nothing of it is counted or cached."""
    engine = Engine(Scheduler(config), runner)
    prompt = text.tokenizer.encode("The quick brown fox jumps over the lazy dog. " * 8)[: config.max_model_len // 2]
    sampling = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    engine.add(Request("warm-up", tuple(prompt), sampling))
    while engine.has_work:
        engine.step()
    if engine.stats().broken is not None:
        raise RuntimeError(engine.stats().broken)
