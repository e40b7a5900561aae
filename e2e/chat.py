"""One question to a served model, whole and as a stream."""

from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]


def answers_alike(client: OpenAI, model: str, max_tokens: int) -> ChatCompletion:
    """The whole answer, after it has been seen to say the same as the stream, which comes in pieces."""
    asked = {"model": model, "messages": QUESTION, "max_tokens": max_tokens, "temperature": 0}
    whole: ChatCompletion = client.chat.completions.create(**asked)  # type: ignore[call-overload]
    text = whole.choices[0].message.content
    assert text
    streamed = client.chat.completions.create(**asked, stream=True)  # type: ignore[call-overload]
    chunks = [c for c in streamed if isinstance(c, ChatCompletionChunk)]
    pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert len(pieces) > 3, "it came in one piece"
    assert "".join(pieces) == text
    return whole
