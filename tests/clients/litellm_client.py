# /// script
# requires-python = ">=3.11"
# dependencies = ["litellm==1.110.2"]
# ///
"""litellm: as an OpenAI-compatible server, and in Anthropic's language."""

import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch its price list

import litellm

litellm.suppress_debug_info = True
URL, MODEL = sys.argv[1:]
OPENAI = {"model": f"openai/{MODEL}", "api_base": f"{URL}/v1", "api_key": "none", "num_retries": 0}
MESSAGES = [{"role": "user", "content": "Say something about rivers."}]

plain = litellm.completion(**OPENAI, messages=MESSAGES, temperature=0, max_tokens=12)
chunks = litellm.completion(**OPENAI, messages=MESSAGES, temperature=0, max_tokens=12, stream=True)
assert "".join(c.choices[0].delta.content or "" for c in chunks) == plain.choices[0].message.content
assert plain.usage.completion_tokens == 12
text = litellm.text_completion(
    model=f"text-completion-openai/{MODEL}", api_base=f"{URL}/v1", api_key="none", prompt="A river", max_tokens=4
)
assert isinstance(text.choices[0].text, str)
assert len(litellm.embedding(**OPENAI, input=["a river", "a mill"]).data) == 2
response = litellm.responses(**OPENAI, input="Say something about rivers.", max_output_tokens=8)
assert response.output[0].content[0].text
anthropic = {"model": f"anthropic/{MODEL}", "api_base": URL, "api_key": "none", "num_retries": 0}
message = litellm.completion(**anthropic, messages=MESSAGES, temperature=0, max_tokens=12)
assert message.choices[0].message.content == plain.choices[0].message.content
try:
    litellm.completion(**OPENAI | {"model": "openai/other"}, messages=MESSAGES)
except litellm.NotFoundError:
    pass
else:
    raise AssertionError("another model is served")
print("litellm")
