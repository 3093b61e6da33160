"""A model_type that nobody here has met is read by its keys, and that is said aloud."""

import pytest

from kvcalc.catalog.config.read import read_config
from kvcalc.specs.base import Source
from tests.cli.conftest import Cli, cli  # noqa: F401

LLAMA = {
    "model_type": "brand_new", "architectures": ["BrandNewForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 4096, "vocab_size": 1000,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_its_name_is_a_warning_in_every_answer(cli: Cli, tmp_path: object) -> None:  # noqa: F811
    import json
    from pathlib import Path

    (Path(str(tmp_path)) / "config.json").write_text(json.dumps(LLAMA))
    load = "--requests 2 --request-rate 1 --isl 10 --osl 2"
    for command in ("size --gpu l4", "kv", "step --gpu l4", f"simulate --gpu l4 {load}"):
        name, _, flags = command.partition(" ")
        ran = cli(f"{name} {tmp_path} {flags}".strip())
        assert ran.code == 0, ran.err
        assert "architecture brand_new" in ran.err


@pytest.mark.parametrize("nested", ["text_config", "llm_config", "language_config"])
def test_it_may_stand_inside_another(nested: str) -> None:
    plain = read_config(LLAMA, "m", Source(what="test"))
    outer = {"model_type": "brand_new_vl", "architectures": ["BrandNewForConditionalGeneration"], nested: LLAMA}
    found = read_config(outer, "m", Source(what="test"))
    assert (found.groups, found.tensors) == (plain.groups, plain.tensors)
