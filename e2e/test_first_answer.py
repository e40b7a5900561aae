"""A platform engineer applies one object, and a model answers."""

from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from e2e.story import Story, Wanted


def test_a_model_answers_plain_and_streamed(story: Story) -> None:
    served = story.apply(Wanted("first"))
    status = served.becomes_ready()["status"]
    assert status["replicas"] == 1
    assert status["url"]

    with OpenAI(base_url=f"{story.url}/v1", api_key="none") as client:
        assert served.model in {m.id for m in client.models.list()}
        question = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]

        plain = client.chat.completions.create(
            model=served.model,
            messages=question,  # type: ignore[arg-type]
            max_tokens=24,
            temperature=0,
        )
        text = plain.choices[0].message.content
        assert text
        assert plain.usage is not None
        assert 0 < plain.usage.completion_tokens <= 24

        streamed = client.chat.completions.create(
            model=served.model,
            messages=question,  # type: ignore[arg-type]
            max_tokens=24,
            temperature=0,
            stream=True,
        )
        chunks = [c for c in streamed if isinstance(c, ChatCompletionChunk)]
        pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
        assert len(pieces) > 3, "it came in one piece"
        assert "".join(pieces) == text
