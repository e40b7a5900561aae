"""What the operator tells our own runtime."""

from forebay_operator.engines.forebay import serve_arguments
from forebay_operator.resource import Spec
from tests.operator.builders import resource


def arguments(**parts: object) -> tuple[str, ...]:
    spec = resource(**parts).spec  # type: ignore[arg-type]
    assert isinstance(spec, Spec)
    return serve_arguments(spec, ("demo",), 595)


def test_the_users_arguments_come_last_and_so_win() -> None:
    given = arguments(engine={"limits": {"maxNumSeqs": 4}, "args": ["--max-num-seqs=8"]})
    assert given.index("--max-num-seqs=4") < given.index("--max-num-seqs=8") == len(given) - 1


def test_an_asked_accelerator_is_used_and_no_other_is_looked_for() -> None:
    assert "--device=cpu" in arguments()
    assert "--device=cuda" in arguments(resources={"limits": {"nvidia.com/gpu": 1}})


def test_draft_tokens_are_named_only_when_there_are_any() -> None:
    assert not [a for a in arguments() if a.startswith("--num-speculative-tokens")]
    assert "--num-speculative-tokens=4" in arguments(engine={"speculative": {"method": "ngram"}})
