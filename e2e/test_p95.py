"""A latency target moves the replicas as a queue does."""

from e2e.load import Request
from e2e.story import Story, Wanted

# About 300 tokens: the first answer token comes after a step's work that no machine does in a millisecond.
PROMPT = "Summarise: " + "the water goes over the wheel and the wheel turns the stone. " * 20


def test_a_missed_p95_adds_a_replica_and_a_kept_one_takes_it_away(story: Story) -> None:
    served = story.apply(Wanted("p95").scaling(2, ttftP95="1ms"))
    served.becomes_ready()
    with served.under_load(*[Request(tokens=8, prompt=PROMPT)] * 2):
        served.comes_to_serve_with(2, seconds=120)
        served.edit(scaling__targets__ttftP95="60s")
        served.comes_to_serve_with(1, seconds=120)
