"""Whatever comes, in whatever order: the counts agree after every step, every answer is right, every request ends."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay_runtime.config import SchedulerConfig
from forebay_runtime.drafting import NgramDrafter, StepTimes
from forebay_runtime.request import Pooling, Request, RequestError, SamplingParams

from .build import EOS, config, engine, run


@dataclass(frozen=True)
class Add:
    prompt: tuple[int, ...]
    max_tokens: int
    salt: str
    temperature: float
    priority: int = 0
    pooling: Pooling | None = None


@dataclass(frozen=True)
class Abort:
    which: int


@dataclass(frozen=True)
class Steps:
    count: int


# Few tokens and repeated pieces, so that prompts share prefixes.
pieces = st.sampled_from([(0, 1, 2, 3, 0, 1), (2, 2), (3,), (0, 1, 2, 3, 0, 1, 1, 1, 2, 0)])
prompts = st.lists(pieces, min_size=1, max_size=6).map(lambda parts: tuple(token for part in parts for token in part))
operations = st.lists(
    st.one_of(
        st.builds(Add, prompts, st.integers(1, 30), st.sampled_from(["", "s"]), st.sampled_from([0.0, 1.0])),
        st.builds(
            Add,
            prompts,
            st.integers(1, 30),
            st.sampled_from(["", "s"]),
            st.sampled_from([0.0, 1.0]),
            st.integers(-1, 1),
            st.sampled_from([None, None, Pooling.MEAN, Pooling.LAST]),
        ),
        st.builds(Abort, st.integers(0, 30)),
        st.builds(Steps, st.integers(1, 6)),
    ),
    max_size=40,
)
bounds = st.builds(
    config,
    seqs=st.integers(1, 6),
    budget=st.integers(1, 24),
    blocks=st.integers(8, 40),
    block_size=st.integers(1, 5),
    prefix_caching=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(bounds=bounds, operations=operations, num_drafts=st.integers(0, 4))
def test_any_order_of_add_abort_and_step(
    bounds: SchedulerConfig, operations: list[Add | Abort | Steps], num_drafts: int
) -> None:
    drafter = NgramDrafter(num_drafts, StepTimes(row_cost=0.001)) if num_drafts else None
    made = engine(bounds, drafter)
    admitted: dict[str, Request] = {}
    texts: dict[str, list[int]] = {}
    vectors: dict[str, tuple[float, ...]] = {}
    aborted: set[str] = set()
    ended: set[str] = set()

    def step() -> None:
        for output in made.step():
            assert output.request_id not in ended | aborted, "an output after the last"
            texts[output.request_id] += output.token_ids
            if output.finish_reason is not None:
                ended.add(output.request_id)
                vectors[output.request_id] = output.embedding
        made.check_integrity()

    for number, operation in enumerate(operations):
        match operation:
            case Add(prompt, max_tokens, salt, temperature, priority, pooling):
                params = SamplingParams(temperature=temperature, max_tokens=max_tokens, seed=number)
                wanted = Request(str(number), prompt, params, frozenset({EOS}), salt, priority, pooling=pooling)
                try:
                    made.add(wanted)
                except RequestError:
                    continue
                admitted[wanted.request_id] = wanted
                texts[wanted.request_id] = []
            case Abort(which):
                if made.abort(str(which)):
                    aborted.add(str(which))
            case Steps(count):
                for _ in range(count):
                    step()
        made.check_integrity()
    most = 20 + sum(len(r.prompt_token_ids) + r.sampling.max_tokens for r in admitted.values()) * 40
    while made.has_work:
        step()
        most -= 1
        assert most > 0, "the engine goes round without an end"
    assert made.stats().kv_cache_usage == 0
    for name, wanted in admitted.items():
        lone = run(engine(config(prefix_caching=False)), wanted)[name]
        alone = lone.token_ids
        limit = bounds.num_blocks * bounds.block_size - len(wanted.prompt_token_ids)
        got = tuple(texts[name])
        assert got == alone[: len(got)]
        if name not in aborted:
            assert got == alone[:limit]
            assert vectors[name] == lone.embedding
