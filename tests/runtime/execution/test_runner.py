"""A runner's steps: mixed batches equal single ones, drafts are verified, garbage in other blocks doesn't matter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from forebay_runtime.config import ModelOptions
from forebay_runtime.execution import Runner
from forebay_runtime.execution.torch_model import TorchModel
from forebay_runtime.models import LoadedModel, load
from forebay_runtime.request import Pooling, SamplingParams
from forebay_runtime.scheduling.sequence import Sequence
from forebay_runtime.scheduling.step import SampledTokens, ScheduledSequence, Step, StepResult
from tests.support.forward import BLOCK_SIZE, logits_of, make_sequence
from tests.support.tiny_checkpoint import FAMILIES, VOCAB, write_checkpoint

BLOCKS_PER_SEQUENCE = 12
PROMPTS = [[(i * k + k) % VOCAB for i in range(length)] for k, length in enumerate((3, 40, 1, 17, 25, 16), 1)]


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    path: Path = write_checkpoint(tmp_path_factory.mktemp(request.param), request.param)
    return load(ModelOptions(str(path), dtype="float64", device="cpu", threads=1))


def runner(loaded: LoadedModel) -> Runner:
    made = Runner(loaded, num_blocks=BLOCKS_PER_SEQUENCE * len(PROMPTS) + 1, block_size=BLOCK_SIZE)
    assert isinstance(made.model, TorchModel)
    for layer in made.model.cache.layers:  # what earlier owners left behind
        layer.keys.normal_(std=30), layer.values.normal_(std=30)
    return made


def sequences(temperature: float) -> list[Sequence]:
    return [
        make_sequence(
            prompt,
            first_block=1 + BLOCKS_PER_SEQUENCE * i,
            num_blocks=BLOCKS_PER_SEQUENCE,
            sampling=SamplingParams(temperature=temperature, seed=i, logprobs=2 if i % 2 else None),
        )
        for i, prompt in enumerate(PROMPTS)
    ]


def advance(sequence: Sequence, num_new_tokens: int, sampled: SampledTokens) -> None:
    sequence.num_computed_tokens += num_new_tokens + max(0, len(sampled.token_ids) - 1)
    sequence.token_ids += sampled.token_ids


def run_alone(loaded: LoadedModel, sequence: Sequence, num_steps: int) -> list[int]:
    alone = runner(loaded)
    for _ in range(num_steps):
        new = sequence.num_tokens - sequence.num_computed_tokens
        (sampled,) = alone.execute(Step((ScheduledSequence(sequence, new),))).sampled
        advance(sequence, new, sampled)
    return sequence.output_token_ids


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_mixed_steps_give_what_each_sequence_gives_alone(loaded: LoadedModel, temperature: float) -> None:
    alone = [run_alone(loaded, sequence, 12) for sequence in sequences(temperature)]
    mixed, together = sequences(temperature), runner(loaded)
    step = 0
    while any(s.num_output_tokens < 12 for s in mixed):
        wanted = [
            (s, min(s.num_tokens - s.num_computed_tokens, 18 if i % 2 else 7))
            for i, s in enumerate(mixed)
            if s.num_output_tokens < 12 and step >= i  # one more joins at each step
        ]
        result = together.execute(Step(tuple(ScheduledSequence(s, new) for s, new in wanted)))
        for (s, new), sampled in zip(wanted, result.sampled, strict=True):
            advance(s, new, sampled)
        step += 1
    assert [s.output_token_ids for s in mixed] == alone


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_right_drafts_are_accepted_and_wrong_ones_are_not(loaded: LoadedModel, temperature: float) -> None:
    truth = run_alone(loaded, sequences(temperature)[1], 8)
    for right in range(4):
        drafts = [*truth[1 : 1 + right], (truth[1 + right] + 1) % VOCAB, 5]
        (sequence,) = sequences(temperature)[1:2]
        verifying = runner(loaded)
        (first,) = verifying.execute(Step((ScheduledSequence(sequence, sequence.num_tokens),))).sampled
        advance(sequence, sequence.num_tokens, first)
        (sampled,) = verifying.execute(Step((ScheduledSequence(sequence, 1, tuple(drafts)),))).sampled
        assert list(sampled.token_ids) == truth[1 : 2 + right]
        assert len(sampled.logprobs) == len(sampled.token_ids)
        advance(sequence, 1, sampled)
        (after,) = verifying.execute(Step((ScheduledSequence(sequence, 1),))).sampled
        assert after.token_ids == (truth[2 + right],)


def test_a_chunk_samples_nothing_and_an_empty_step_is_nothing(loaded: LoadedModel) -> None:
    sequence = sequences(0.0)[1]
    assert runner(loaded).execute(Step((ScheduledSequence(sequence, 10),))).sampled == (SampledTokens(),)
    assert runner(loaded).execute(Step(())) == StepResult(())


def test_logprobs_come_where_they_are_asked_for(loaded: LoadedModel) -> None:
    wanted = sequences(1.0)[:2]
    result = runner(loaded).execute(Step(tuple(ScheduledSequence(s, s.num_tokens) for s in wanted)))
    assert result.sampled[0].logprobs == ()
    (logprobs,) = result.sampled[1].logprobs
    assert len(logprobs.top) == 2
    assert logprobs.top[0][1] >= logprobs.top[1][1] >= -50


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_serving_types_stay_close_to_float64(
    dtype: str, quantization: str, loaded: LoadedModel, tmp_path: Path
) -> None:
    family = loaded.config.architecture
    path = write_checkpoint(tmp_path, family)
    other = load(ModelOptions(str(path), dtype=dtype, quantization=quantization, device="cpu", threads=1))  # type: ignore[arg-type]
    exact, near = logits_of(loaded, PROMPTS[1]), logits_of(other, PROMPTS[1]).double()
    tolerance = 1e-4 if (dtype, quantization) == ("float32", "none") else 0.12
    assert (near - exact).norm() / exact.norm() < tolerance
    assert torch.isfinite(near).all()


def pooled(loaded: LoadedModel, prompt: list[int], pooling: Pooling, chunk: int) -> list[torch.Tensor]:
    """What each chunk of the prompt adds."""
    sequence = make_sequence(prompt, num_blocks=BLOCKS_PER_SEQUENCE, pooling=pooling)
    made, parts = runner(loaded), []
    while (left := sequence.num_tokens - sequence.num_computed_tokens) > 0:
        (sampled,) = made.execute(Step((ScheduledSequence(sequence, min(chunk, left)),))).sampled
        assert sampled.token_ids == ()
        parts.append(torch.tensor(sampled.pooled, dtype=torch.float64))
        sequence.num_computed_tokens += min(chunk, left)
    return parts


def test_a_vector_is_what_the_head_gets(loaded: LoadedModel) -> None:
    prompt = PROMPTS[1]
    logits = logits_of(loaded, prompt)
    *none, last = pooled(loaded, prompt, Pooling.LAST, 7)
    assert all(part.numel() == 0 for part in none)
    cap = loaded.config.final_softcap
    made = loaded.model.head(last.unsqueeze(0))
    torch.testing.assert_close(made if cap is None else cap * torch.tanh(made / cap), logits[-1:])


def test_chunks_of_a_mean_add_up_to_the_sum_of_every_token_s_vector(loaded: LoadedModel) -> None:
    prompt = PROMPTS[1]
    each = [pooled(loaded, prompt[:n], Pooling.LAST, 100)[0] for n in range(1, len(prompt) + 1)]
    for chunk in (7, 100):
        parts = pooled(loaded, prompt, Pooling.MEAN, chunk)
        torch.testing.assert_close(torch.stack(parts).sum(0), torch.stack(each).sum(0))
