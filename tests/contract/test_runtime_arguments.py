"""The arguments that the operator gives are arguments that the runtime takes, and mean what was meant."""

import pytest

from forebay_operator.engines import forebay
from forebay_operator.program import MODEL_DIRECTORY, PORT, fetch_arguments
from forebay_operator.resource import Spec
from forebay_runtime.arguments import adapter_options, parser, server_config
from forebay_runtime.failures import StartUpError

EVERYTHING = {
    "model": {"source": "hf://org/name@main", "servedName": "--模型 1", "contextLength": 4096},
    "engine": {
        "quantization": "int8",
        "prefixCaching": False,
        "kvCache": {"dtype": "int8"},
        "speculative": {"method": "ngram", "numTokens": 3},
        "limits": {"maxNumSeqs": 16, "maxNumBatchedTokens": 512, "maxNumWaiting": 0, "kvCacheMemory": "2Gi"},
        "args": ["--block-size=32", "--threads", "2", "--max-num-seqs=12", "--lora", "poet=/model/adapters/poet"],
    },
}
LEAST = {"model": {"source": "oci://registry/model:1"}}


@pytest.mark.parametrize("spec", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_the_runtime_takes_what_the_operator_gives(spec: dict[str, object]) -> None:
    made = forebay.program(Spec.model_validate(spec), ("name",), 595)
    assert made.command == ("forebay-runtime",)
    parser().parse_args(made.serve)


def test_every_field_arrives() -> None:
    made = forebay.program(Spec.model_validate(EVERYTHING), ("--模型 1", "llama"), 595)
    args = parser().parse_args(made.serve)
    assert (args.host, args.port, args.model) == ("0.0.0.0", PORT, MODEL_DIRECTORY)
    assert args.served_model_name == ["--模型 1", "llama"]
    assert (args.device, args.quantization, args.prefix_caching) == ("cpu", "int8", "off")
    assert (args.speculative, args.num_speculative_tokens) == ("ngram", 3)
    assert (args.max_model_len, args.max_num_batched_tokens, args.max_num_waiting) == (4096, 512, 0)
    assert args.kv_cache_dtype == "int8"
    assert args.kv_cache_memory == 2 * 2**30
    assert args.drain_grace == 595
    assert (args.block_size, args.threads) == (32, 2)
    assert args.lora == [("poet", "/model/adapters/poet")]
    assert args.max_num_seqs == 12, "the user's own arguments win"


def test_an_alias_may_be_an_adapters_so_that_the_gateway_routes_by_it() -> None:
    model = {**LEAST["model"], "aliases": ["small", "poet"]}
    spec = {"model": model, "engine": {"args": ["--lora", "poet=/model/adapters/poet", "--lora=clerk=/model/clerk"]}}
    args = parser().parse_args(forebay.program(Spec.model_validate(spec), ("name", "small", "poet"), 1).serve)
    config = server_config(args)
    assert config.served_names == ("name", "small")
    assert adapter_options(args, config).at_start == (("poet", "/model/adapters/poet"), ("clerk", "/model/clerk"))


@pytest.mark.parametrize("names", [["name=a"], ["poet=a", "poet=b"]])
def test_an_adapter_never_has_the_models_own_name_or_anothers(names: list[str]) -> None:
    args = parser().parse_args(["serve", "m", "--served-model-name", "name", *(f"--lora={name}" for name in names)])
    with pytest.raises(StartUpError, match="the name is taken"):
        adapter_options(args, server_config(args))


def test_fetch_has_the_source_and_the_directory_that_is_served() -> None:
    args = parser().parse_args(fetch_arguments("hf://org/name@main"))
    assert (args.source, str(args.directory)) == ("hf://org/name@main", MODEL_DIRECTORY)
    assert (args.host, args.port, args.most) == ("0.0.0.0", PORT, None)


def test_fetch_has_the_bytes_that_a_cache_may_hold() -> None:
    args = parser().parse_args(fetch_arguments("s3://models/llama", "/cache/abc", 20 * 2**30))
    assert (args.source, str(args.directory), args.most) == ("s3://models/llama", "/cache/abc", 20 * 2**30)


@pytest.mark.parametrize("dtype", forebay.KV_DTYPES)
def test_the_runtime_keeps_keys_and_values_in_what_the_resource_says(dtype: str) -> None:
    engine = {"kvCache": {"dtype": dtype}}
    made = forebay.program(Spec.model_validate({**LEAST, "engine": engine}), ("name",), 1)
    assert parser().parse_args(made.serve).kv_cache_dtype == forebay.KV_DTYPES[dtype]


@pytest.mark.parametrize("method", ["none", "ngram"])
@pytest.mark.parametrize("quantization", ["auto", "none", "int8", "int4"])
def test_every_word_that_the_resource_allows_the_runtime_knows(method: str, quantization: str) -> None:
    engine = {"quantization": quantization, "speculative": {"method": method}}
    made = forebay.program(Spec.model_validate({**LEAST, "engine": engine}), ("name",), 1)
    args = parser().parse_args(made.serve)
    assert (args.speculative, args.quantization) == (method, quantization)
