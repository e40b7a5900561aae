# /// script
# requires-python = ">=3.11"
# dependencies = ["instructor==1.17.0"]
# ///
"""instructor: validated objects by a kept schema and by a forced tool."""

import sys
from typing import Literal

import instructor
import openai
from pydantic import BaseModel

URL, MODEL = sys.argv[1:]


class Gauge(BaseModel):
    level: Literal["low", "high"]
    rising: bool


for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
    official = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
    gauge = instructor.from_openai(official, mode=mode).chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "The river is low and rising."}],
        response_model=Gauge,
        max_retries=0,
        temperature=0,
        max_tokens=120,
    )
    assert isinstance(gauge, Gauge), mode
print("instructor")
