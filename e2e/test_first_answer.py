"""A platform engineer applies one object, and a model answers."""

from openai import OpenAI

from e2e import chat
from e2e.story import Story, Wanted


def test_a_model_answers_plain_and_streamed(story: Story) -> None:
    served = story.apply(Wanted("first"))
    status = served.becomes_ready()["status"]
    assert status["replicas"] == 1
    assert status["url"]

    with OpenAI(base_url=f"{story.url}/v1", api_key="none") as client:
        assert served.model in {m.id for m in client.models.list()}
        usage = chat.answers_alike(client, served.model, max_tokens=24).usage
        assert usage is not None
        assert 0 < usage.completion_tokens <= 24
