"""What a model takes is told by the pods that serve it; what cannot fit is refused before a pod is made for it."""

from e2e.story import Story, Wanted

MIB = 1 << 20


def test_what_cannot_fit_is_refused_before_its_first_pod(story: Story) -> None:
    served = story.apply(Wanted("fits").with_(model__contextLength=1024))
    status = served.becomes_ready()["status"]
    model, memory = status["model"], status["memory"]
    assert model["parameters"] > 100_000_000
    assert (model["context"], memory["fits"]) == (1024, True)
    assert memory["total"] == memory["weights"] + memory["kv"] + memory["own"]
    assert memory["kv"] == 1024 * model["kvBytesPerToken"]

    small = {"requests": {"memory": "64Mi"}, "limits": {"memory": "200Mi"}}
    refused = story.apply(Wanted("small").with_(model__contextLength=1024, resources=small))
    said = refused.comes_to_say("DoesNotFit", seconds=30)
    assert "but a pod has 200 MiB" in said
    assert not refused.pods(), "no pod is made for what cannot fit"

    enough = f"{memory['total'] // MIB + 512}Mi"
    refused.edit(resources__limits__memory=enough)
    refused.comes_to_say("Accepted=True", seconds=30)
    refused.becomes_ready()


def test_where_nothing_is_known_of_the_model_a_pod_that_runs_out_of_memory_says_so(story: Story) -> None:
    small = {"requests": {"memory": "64Mi"}, "limits": {"memory": "160Mi"}}
    served = story.apply(Wanted("first").with_(resources=small))
    served.comes_to_say(r"OOMKilled|OutOfMemory", seconds=60)
    assert served.condition("Accepted")["status"] == "True"
