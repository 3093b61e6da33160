"""A draft beside the target: its weights and its cache shrink the pool; one that cannot be read is said."""

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.drafts import draft_deployment
from kvcalc.answers.question import ask
from kvcalc.answers.size.answer import size
from kvcalc.answers.speculate.answer import speculate
from kvcalc.answers.speculate.settings import SpeculateSettings
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.units import GIB

FLAGS = {"gpu": "h100-sxm", "tensor_parallel_size": "4", "engine_version": "0.19", "num_speculative_tokens": "5"}


def deployed(model: str, **flags: str) -> Deployed:
    return Deployed(ask(model, FLAGS | flags))


def test_a_model_that_drafts() -> None:
    """Llama-3-8B beside Llama-3-70B on four GPUs: 80 and 32 layers of two KV heads of 128, in 16 bits."""
    plain, drafted = deployed("llama-3-70b"), deployed("llama-3-70b", draft="llama-3-8b")
    assert plain.bytes_per_token(0) == 80 * 2 * 128 * 2 * 2
    assert drafted.bytes_per_token(0) == (80 + 32) * 2 * 128 * 2 * 2
    more = drafted.weight_bytes_per_gpu - plain.weight_bytes_per_gpu
    assert more == pytest.approx(8_030_261_248 * 2 / 4, rel=0.01)
    assert plain.budget.pool is not None
    assert drafted.budget.pool is not None
    assert plain.budget.pool.value - drafted.budget.pool.value == more


def test_layers_that_the_model_has_of_its_own() -> None:
    own = deployed("deepseek-v3", draft="mtp")
    assert own.weight_bytes_per_gpu == deployed("deepseek-v3").weight_bytes_per_gpu
    assert (
        deployed("deepseek-v3", draft="ngram").weight_bytes_per_gpu < own.weight_bytes_per_gpu
    )  # nothing drafts but a look-up


def test_a_published_method() -> None:
    """EAGLE-3's one layer of Llama-3-8B: about 0.7 GiB in 16 bits beside 15."""
    one = {"tensor_parallel_size": "1"}
    more = (
        deployed("llama-3-8b", draft="eagle-3", **one).weight_bytes_per_gpu
        - deployed("llama-3-8b", **one).weight_bytes_per_gpu
    )
    assert 0.5 * GIB < more < 1.0 * GIB


def test_one_that_cannot_be_read_is_a_warning(tmp_path: object) -> None:
    drafted = deployed("llama-3-70b", draft=f"{tmp_path}/missing")
    assert drafted.weight_bytes_per_gpu == deployed("llama-3-70b").weight_bytes_per_gpu
    assert any("missing" in warning and "cannot be read" in warning for warning in drafted.budget.warnings)


@pytest.mark.parametrize(
    "flags", [{"num_speculative_tokens": "0"}, {"engine": "ideal", "engine_version": "1"}, {"draft": "mtp"}]
)
def test_what_makes_no_sense(flags: dict[str, str]) -> None:
    with pytest.raises(KvcalcError):
        deployed("llama-3-70b", **({"draft": "llama-3-8b"} | flags))


def test_llamacpp_holds_its_cells_too() -> None:
    flags = {"engine": "llamacpp", "tensor_parallel_size": "1", "ctx_size": "8192", "gpu": "h100-sxm"}
    asked = {name: value for name, value in (FLAGS | flags).items() if name != "engine_version"}
    plain, drafted = (Deployed(ask("llama-3-8b", asked | more)) for more in ({}, {"draft": "llama-3.2-1b"}))
    assert (plain.pool_bytes, drafted.pool_bytes) == (GIB, GIB + 8192 * 16 * 2 * 8 * 64 * 2)


@pytest.mark.parametrize(
    "model, draft, flags",
    [
        ("llama-3-70b", "llama-3-8b", {}),
        ("llama-3-70b", "llama-68m", {"tensor_parallel_size": "8"}),  # 12 heads: whole on each GPU
        ("llama-3-70b", "llama-3-8b", {"tensor_parallel_size": "2", "pipeline_parallel_size": "2"}),
        ("llama-3-8b", "eagle-3", {"tensor_parallel_size": "1"}),
        ("llama-3-8b", "medusa", {"tensor_parallel_size": "1"}),
        ("deepseek-v3", "mtp", {"gpu": "h200-sxm", "tensor_parallel_size": "8"}),
        ("qwen3.5-27b", "ngram", {}),
        ("gpt-oss-120b", "gpt-oss-20b", {"engine": "sglang", "engine_version": "0.5.9"}),
        ("llama-3-70b", "llama-3-8b", {"engine": "trtllm", "engine_version": "1.0"}),
        ("llama-3-8b", "llama-3.2-1b", {"engine": "llamacpp", "engine_version": "b6000", "tensor_parallel_size": "1"}),
    ],
)
def test_speculate_deploys_what_size_deploys(model: str, draft: str, flags: dict[str, str]) -> None:
    """One path: the batch that fits beside a draft, its weights and the verdict are those of `size --draft`."""
    flags = FLAGS | {"context": "4096"} | flags
    alone = {name: text for name, text in flags.items() if name != "num_speculative_tokens"}
    with_draft, without = size(ask(model, flags | {"draft": draft})).result, size(ask(model, alone)).result
    result = speculate(ask(model, alone), SpeculateSettings(draft=draft, gamma=5)).result
    memory = result.memory
    assert (memory.max_batch, memory.max_batch_without) == (with_draft.max_batch, without.max_batch)
    assert memory.weight_bytes == with_draft.weight_bytes_per_gpu - without.weight_bytes_per_gpu
    one = size(ask(model, flags | {"draft": draft, "batch": "1"})).result
    assert (result.fit, result.reason) == (one.fit, one.reason)


def test_a_draft_that_does_not_divide_is_whole_on_each_gpu() -> None:
    """Llama-68M: two layers of 12 KV heads of 64; 68,034,816 parameters in 16 bits."""
    asked = {"tensor_parallel_size": "8"}
    plain, drafted = deployed("llama-3-70b", **asked), deployed("llama-3-70b", draft="llama-68m", **asked)
    assert drafted.weight_bytes_per_gpu - plain.weight_bytes_per_gpu == pytest.approx(2 * 68_034_816, rel=1e-3)
    assert drafted.bytes_per_token(0) - plain.bytes_per_token(0) == 2 * 12 * (64 + 64) * 2
    assert any(one.name == "draft tensor_parallel_size" for one in drafted.model.assumptions)


def test_drafted_tokens_have_slots_of_their_own() -> None:
    """vLLM keeps a slot for each drafted token, up to max_model_len: 4,096 + 5 tokens are 257 blocks of 16, not 256."""
    flags = FLAGS | {"kv_memory_bytes": "10GiB", "max_model_len": "8192"}
    plain = Deployed(ask("llama-3-70b", flags | {"num_speculative_tokens": "0"}))
    drafted = Deployed(ask("llama-3-70b", flags))
    blocks = 10 * GIB // (80 * 2 * 128 * 2 * 2 * 16) - 1
    assert (plain.max_batch(4096), drafted.max_batch(4096)) == (blocks // 256, blocks // 257)
    assert plain.max_batch(8192) == drafted.max_batch(8192) == blocks // 512


def test_what_stays_with_the_host_is_of_the_target() -> None:
    """One of eight of 80 layers, whether 32 more draft beside them or not."""
    host = {"offload_group_size": "8"}
    plain, drafted = deployed("llama-3-70b", **host), deployed("llama-3-70b", draft="llama-3-8b", **host)
    assert plain.prefetch == drafted.prefetch
    assert plain.prefetch is not None
    assert len(plain.prefetch.places) == 10
    draft = draft_deployment(load_model("llama-3-8b"), drafted.deployment)[0]
    assert (draft.offload_group_size, draft.cpu_offload_bytes) == (0, 0)
