"""llama.cpp serves the sample's file: another engine behind the same object, gateway and adapter.

Beside the other stories, not among them: on a fresh machine its image takes minutes to build.
"""

import time

import pytest
from openai import NotFoundError, OpenAI
from openai.types.chat import ChatCompletionChunk

from e2e import chat, models
from e2e.engines import llama_image
from e2e.kube import path_of
from e2e.story import PODS, Story, Wanted

METRICS = "custom.metrics.k8s.io/v1beta2/inferenceservices.forebay.dev"
FILE = next(sample.file for sample in models.SAMPLES if sample.name == "smollm2")
LONG = 2500  # tokens: half a minute of answer


@pytest.mark.timeout(1500)
def test_llama_cpp_serves_a_file_and_goes_with_its_object(story: Story) -> None:
    engine = {"type": "llamacpp", "image": llama_image.reference(), "limits": {"maxNumSeqs": 2}}
    wanted = Wanted("llama").with_(model__file=FILE, model__contextLength=LONG + 100, engine=engine)
    served = story.apply(wanted.scaling(2, queueDepth=4))
    served.becomes_ready()

    with OpenAI(base_url=f"{story.url}/v1", api_key="none") as client:
        chat.answers_alike(client, served.model, max_tokens=16)

        metric = f"{path_of(METRICS, story.namespace, served.name)}/queue_depth"
        told = lambda: (reply := story.kube.call("GET", metric)).status_code == 200 and reply.json()  # noqa: E731
        pods = path_of(PODS, story.namespace)
        value = story.kube.until(told, pods, 20, "the adapter knows the engine's queue")["items"][0]["value"]
        assert value == "0", "nobody waits"

        running = client.chat.completions.create(
            model=served.model,
            messages=chat.QUESTION,  # type: ignore[arg-type]
            max_tokens=LONG,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        next(iter(running))
        story.kube.must("delete", "isvc", served.name, "-n", story.namespace, "--timeout=30s")
        began, last = time.monotonic(), [c for c in running if isinstance(c, ChatCompletionChunk) and c.choices][-1]
        assert last.choices[0].finish_reason == "length", "its last request is finished"
        assert time.monotonic() - began > 15, "it went on for longer than every proxy needs to know"
        said = "its pod ends long before its grace of ten minutes, as it is idle"
        story.kube.until(lambda: not story.kube.items(pods), pods, 60, said)
        with pytest.raises(NotFoundError):
            client.chat.completions.create(model=served.model, messages=chat.QUESTION)  # type: ignore[arg-type]
