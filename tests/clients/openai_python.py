# /// script
# requires-python = ">=3.11"
# dependencies = ["openai==3.57.0"]
# ///
"""openai-python: chats, completions, responses, embeddings, models, errors."""

import sys
from typing import Literal

import openai
from pydantic import BaseModel

URL, MODEL = sys.argv[1:]
ASKED = [{"role": "user", "content": "Say something about rivers."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "open_gate",
        "parameters": {
            "type": "object",
            "properties": {"which": {"enum": ["left", "right"]}},
            "required": ["which"],
            "additionalProperties": False,
        },
    },
}


class Gauge(BaseModel):
    level: Literal["low", "high"]
    rising: bool


def chats(client: openai.OpenAI) -> None:
    fields = {"model": MODEL, "messages": ASKED, "temperature": 0, "max_completion_tokens": 12}
    plain = client.chat.completions.create(**fields)
    stream = client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == plain.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens == 12
    parsed = client.chat.completions.parse(
        model=MODEL, messages=ASKED, response_format=Gauge, temperature=0, max_tokens=60
    )
    assert isinstance(parsed.choices[0].message.parsed, Gauge)


def tools(client: openai.OpenAI) -> None:
    fields = {"model": MODEL, "messages": ASKED, "tools": [TOOL], "temperature": 0, "max_tokens": 100}
    with client.chat.completions.stream(**fields, tool_choice="required", parallel_tool_calls=False) as stream:
        for event in stream:
            assert event.type
        message = stream.get_final_completion().choices[0].message
    (call, *_) = message.tool_calls
    assert call.function.name == "open_gate"
    turn = message.model_dump(include={"role", "content", "tool_calls"})
    result = {"role": "tool", "tool_call_id": call.id, "content": "open"}
    again = client.chat.completions.create(**fields | {"messages": [*ASKED, turn, result]}, tool_choice="none")
    assert isinstance(again.choices[0].message.content, str)


def completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=["A river", "A mill"], max_tokens=4, temperature=0, logprobs=1
    )
    assert [c.index for c in answer.choices] == [0, 1]
    assert len(answer.choices[0].logprobs.tokens) == 4


def responses(client: openai.OpenAI) -> None:
    fields = {"model": MODEL, "input": "Say something about rivers.", "temperature": 0, "max_output_tokens": 12}
    plain = client.responses.create(**fields)
    deltas = [e.delta for e in client.responses.create(**fields, stream=True) if e.type == "response.output_text.delta"]
    assert "".join(deltas) == plain.output_text
    after = client.responses.create(**fields | {"input": "And mills?"}, previous_response_id=plain.id)
    assert after.usage.input_tokens > plain.usage.input_tokens
    assert client.responses.retrieve(after.id).output_text == after.output_text
    parsed = client.responses.parse(model=MODEL, input="The river.", text_format=Gauge, max_output_tokens=60)
    assert isinstance(parsed.output_parsed, Gauge)
    background = client.responses.create(**fields | {"max_output_tokens": 500}, background=True)
    assert client.responses.cancel(background.id).status in ("cancelled", "completed", "incomplete")


def embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model=MODEL, input=["a river", "a mill"])
    assert abs(sum(x * x for x in answer.data[1].embedding) - 1) < 1e-3


def errors(client: openai.OpenAI) -> None:
    for fields, kind in (({"model": "other"}, openai.NotFoundError), ({"temperature": 9}, openai.BadRequestError)):
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": ASKED} | fields)
        except kind as e:
            assert e.param in fields
        else:
            raise AssertionError(kind)


client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
for try_out in (chats, tools, completions, responses, embeddings, errors):
    try_out(client)
assert MODEL in [m.id for m in client.models.list()]
print(f"openai {openai.__version__}")
