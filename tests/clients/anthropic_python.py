# /// script
# requires-python = ">=3.11"
# dependencies = ["anthropic==2.14.0"]
# ///
"""anthropic: messages, their stream, tools, kept schemas, the count of tokens, errors."""

import json
import sys

import anthropic

URL, MODEL = sys.argv[1:]
MESSAGES = [{"role": "user", "content": "Say something about rivers."}]
SCHEMA = {
    "type": "object",
    "properties": {"which": {"enum": ["left", "right"]}},
    "required": ["which"],
    "additionalProperties": False,
}
client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
GREEDY = {"temperature": 0}  # this version has no word for it, and lets others pass
asked = {"model": MODEL, "messages": MESSAGES, "max_tokens": 12, "system": "Be brief.", "extra_body": GREEDY}

plain = client.messages.create(**asked)
assert plain.stop_reason in ("max_tokens", "end_turn")
with client.messages.stream(**asked) as stream:
    text = "".join(stream.text_stream)
    last = stream.get_final_message()
assert text == plain.content[0].text == last.content[0].text
assert last.stop_reason == plain.stop_reason
assert last.usage.output_tokens == plain.usage.output_tokens
counted = client.messages.count_tokens(model=MODEL, messages=MESSAGES, system="Be brief.").input_tokens
assert counted == last.usage.input_tokens + last.usage.cache_read_input_tokens

stop = plain.content[0].text.split()[1]
stopped = client.messages.create(**asked, stop_sequences=[stop])
assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", stop)

tools = [{"name": "open_gate", "description": "Opens a gate.", "input_schema": SCHEMA}]
forced = asked | {"max_tokens": 60, "tools": tools}
with client.messages.stream(**forced, tool_choice={"type": "tool", "name": "open_gate"}) as stream:
    called = stream.get_final_message()
use = next(block for block in called.content if block.type == "tool_use")
assert use.input["which"] in ("left", "right")
result = {"type": "tool_result", "tool_use_id": use.id, "content": "It is open."}
turns = [{"role": "assistant", "content": [use.model_dump(exclude_none=True)]}, {"role": "user", "content": [result]}]
after = client.messages.create(**forced | {"messages": [*MESSAGES, *turns]}, tool_choice={"type": "none"})
assert after.role == "assistant"

kept = client.messages.create(
    **asked | {"max_tokens": 60}, output_config={"format": {"type": "json_schema", "schema": SCHEMA}}
)
assert json.loads(kept.content[0].text)["which"] in ("left", "right")
for fields, kind in (
    ({"model": "other"}, anthropic.NotFoundError),
    ({"extra_body": {"temperature": 9}}, anthropic.BadRequestError),
):
    try:
        client.messages.create(**asked | fields)
    except kind as e:
        assert e.body["type"] == "error"
    else:
        raise AssertionError(kind)
print(f"anthropic {anthropic.__version__}")
