# /// script
# requires-python = ">=3.11"
# dependencies = ["langchain-openai==1.7.4"]
# ///
"""langchain-openai: a chat, its stream, structured output, tools, embeddings, a completion, responses."""

import sys
from typing import Literal

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

URL, MODEL = sys.argv[1:]
WHERE = {"base_url": f"{URL}/v1", "api_key": "none", "model": MODEL, "max_retries": 0}


class Gauge(BaseModel):
    """What a gauge shows."""

    level: Literal["low", "high"]


@tool
def open_gate(which: Literal["left", "right"]) -> str:
    """Opens a gate."""
    return which


chat = ChatOpenAI(**WHERE, temperature=0, max_tokens=24, stream_usage=True)
plain = chat.invoke("Say something about rivers.")
chunks = list(chat.stream("Say something about rivers."))
assert "".join(c.content for c in chunks) == plain.content
assert sum(c.usage_metadata["output_tokens"] for c in chunks if c.usage_metadata) == 24
longer = ChatOpenAI(**WHERE, temperature=0, max_tokens=120)
assert isinstance(longer.with_structured_output(Gauge, method="json_schema").invoke("The river."), Gauge)
called = longer.bind_tools([open_gate], tool_choice="open_gate", parallel_tool_calls=False).invoke(
    "Open the left gate."
)
assert called.tool_calls[0]["name"] == "open_gate"
assert called.tool_calls[0]["args"]["which"] in ("left", "right")
response = ChatOpenAI(**WHERE, temperature=0, max_tokens=8, use_responses_api=True).invoke("Say something.")
assert response.text
assert len(OpenAIEmbeddings(**WHERE, check_embedding_ctx_length=False).embed_documents(["a river", "a mill"])) == 2
assert isinstance(OpenAI(**WHERE, temperature=0, max_tokens=4).invoke("A river"), str)
print("langchain-openai")
