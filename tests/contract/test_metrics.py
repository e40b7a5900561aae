"""The runtime's metrics page gives the adapter all it reads, from the first scrape on."""

import math

from forebay_operator.metrics import scrape
from forebay_runtime.server.metrics import Load, Metrics

IDLE = Load(
    num_running=2,
    num_waiting=3,
    kv_cache_usage=0.5,
    prefix_cache_queries=0,
    prefix_cache_hits=0,
    num_preemptions=0,
    num_draft_tokens=0,
    num_accepted_tokens=0,
    num_steps=0,
    draining=False,
)


def test_a_page_before_the_first_request_is_complete() -> None:
    found = scrape.parse(Metrics("llama", "0", lambda: IDLE).exposition().decode(), 5.0)
    assert (found.waiting, found.running, found.generated) == (3, 2, 0)
    assert found.ttft is not None
    assert found.ttft[math.inf] == 0


def test_first_tokens_and_tokens_are_counted_where_the_adapter_looks() -> None:
    metrics = Metrics("llama", "0", lambda: IDLE)
    metrics.first_token(0.2, 0.1, 10)
    metrics.tokens(4)
    found = scrape.parse(metrics.exposition().decode(), 5.0)
    assert found.generated == 4
    assert found.ttft is not None
    assert (found.ttft[0.15], found.ttft[0.25], found.ttft[math.inf]) == (0, 1, 1)
