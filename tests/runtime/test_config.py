"""From what is asked and what the machine has to the scheduler's bounds, or an error with the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay_runtime.config import MIB, Capacity, ConfigError, SchedulerOptions, resolve

SMOLLM2 = Capacity(
    context=8192, kv_bytes_per_token=23040, block_multiple=1, memory=8192 * MIB, cpus=2.0, accelerator=False
)


def test_a_small_model_on_a_cpu_takes_its_whole_context_and_one_gib() -> None:
    got = resolve(SchedulerOptions(), SMOLLM2)
    assert (got.max_model_len, got.max_num_seqs, got.max_num_batched_tokens) == (8192, 64, 256)
    assert got.num_blocks == 1024 * MIB // (16 * 23040)


def test_a_gpu_gives_nine_tenths_of_what_is_left() -> None:
    got = resolve(SchedulerOptions(), replace(SMOLLM2, accelerator=True, memory=1000 * 16 * 23040))
    assert (got.num_blocks, got.max_num_seqs, got.max_num_batched_tokens) == (900, 256, 4096)


def test_a_context_that_was_not_asked_for_is_cut_to_memory() -> None:
    got = resolve(SchedulerOptions(), replace(SMOLLM2, context=131072, memory=1000 * MIB))
    assert got.max_model_len == got.num_blocks * 16 == 400 * MIB // (16 * 23040) * 16


def test_a_context_that_was_asked_for_may_take_four_fifths() -> None:
    got = resolve(SchedulerOptions(max_model_len=32768), replace(SMOLLM2, context=131072, memory=1000 * MIB))
    assert got.max_model_len == 32768


def test_a_context_longer_than_memory_holds_is_refused_with_the_numbers() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(SchedulerOptions(max_model_len=100_000), replace(SMOLLM2, context=131072, memory=1000 * MIB))
    message = str(caught.value)
    for number in ("100000 tokens", "2197.3 MiB", "23040 bytes", "1000.0 MiB"):
        assert number in message
    assert "\n" not in message
    fits = int(message.split("lower --max-model-len to ")[1].split()[0])
    assert resolve(SchedulerOptions(max_model_len=fits), replace(SMOLLM2, context=131072, memory=1000 * MIB))


def test_memory_that_holds_no_useful_context_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a context of 512 tokens needs 11\.2 MiB"):
        resolve(SchedulerOptions(), replace(SMOLLM2, memory=MIB))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (SchedulerOptions(max_model_len=9000), "--max-model-len 9000 is more than the model's own context of 8192"),
        (SchedulerOptions(kv_cache_memory=9000 * MIB), "--kv-cache-memory asks for 9000.0 MiB, but 8192.0 MiB are"),
        (SchedulerOptions(kv_cache_memory=10 * MIB, max_model_len=8192), "--kv-cache-memory holds 448 tokens"),
        (SchedulerOptions(max_num_batched_tokens=8, max_num_seqs=16), "8 is less than --max-num-seqs 16"),
        (SchedulerOptions(max_num_seqs=0), "--max-num-seqs 0 is less than 1"),
        (SchedulerOptions(block_size=0), "--block-size 0 is less than 1"),
        (SchedulerOptions(max_num_waiting=-1), "--max-num-waiting -1 is less than 0"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(options: SchedulerOptions, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(options, SMOLLM2)
    assert said in str(caught.value)


def test_blocks_beyond_any_use_are_not_made() -> None:
    tiny = replace(SMOLLM2, context=128, kv_bytes_per_token=64)
    assert resolve(SchedulerOptions(), tiny).num_blocks == 64 * 8 * 2
    assert resolve(SchedulerOptions(prefix_caching=False), tiny).num_blocks == 64 * 8


def test_what_is_asked_for_is_what_is_got() -> None:
    got = resolve(
        SchedulerOptions(1024, 8, 64, 3, 32, 100 * MIB, prefix_caching=False, num_speculative_tokens=5), SMOLLM2
    )
    assert (got.max_model_len, got.max_num_seqs, got.max_num_batched_tokens, got.max_num_waiting) == (1024, 8, 64, 3)
    assert (got.block_size, got.num_blocks, got.prefix_caching, got.num_speculative_tokens) == (32, 142, False, 5)
