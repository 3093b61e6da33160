"""Prompts: properties that hold for every model, and cases whose answer is known without kvcalc."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.prefill.answer import PrefillSettings, prefill
from kvcalc.answers.prefill.cache import exposed, sent_bytes
from kvcalc.answers.question import ask
from kvcalc.errors import KvcalcError
from kvcalc.results.prefill import PrefillResult
from kvcalc.specs.checked import checked


def run(model: str = "llama-3-8b", own: dict[str, object] | None = None, **flags: Any) -> PrefillResult:
    given = {name: str(value) for name, value in flags.items()}
    return prefill(ask(model, {"gpu": "h100-sxm", **given}), checked(PrefillSettings, own or {})).result


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_chunks_cover_the_prompt_and_get_slower(engine: str) -> None:
    result = run(engine=engine, input_len=10_000, batch=32, context=1024, own={"chunk": 768})
    assert [one.start for one in result.chunks] == list(range(0, 10_000, 768))
    assert sum(one.tokens for one in result.chunks) == 10_000
    full = [one.step_time_s for one in result.chunks[:-1]]
    assert full == sorted(full)
    front_end_s = next((one.time_s for one in result.ttft_terms if one.name == "front end"), 0.0)
    assert result.chunked_ttft_s == pytest.approx(front_end_s + sum(one.step_time_s for one in result.chunks))


def test_the_default_chunk_leaves_a_token_for_each_sequence() -> None:
    assert run(batch=64, context=1024, max_num_batched_tokens=2048).chunk == 1984
    with pytest.raises(KvcalcError, match="fill max_num_batched_tokens"):
        run(batch=2048, context=1024, max_num_batched_tokens=2048)


def test_more_sequences_than_a_step_has_tokens_are_taken_for_half_of_it_where_nobody_asked_for_them() -> None:
    flags = {"gpu": "h100-sxm", "engine": "llamacpp", "input_len": "500", "context": "256"}
    found = prefill(ask("llama-3-8b", flags))  # micro-batches of 512 tokens; thousands of sequences fit
    assert (found.result.batch, found.result.chunk) == (256, 256)
    assert [one.value for one in found.assumptions if one.name == "batch"] == [256]


def test_whole_prompt_in_one_chunk_is_the_spike() -> None:
    result = run(input_len=4096, batch=16, context=1024, own={"chunk": 4096})
    assert result.chunks[0].step_time_s == pytest.approx(result.spike.step_time_s)
    assert result.spike.ratio == pytest.approx(result.spike.step_time_s / result.decode_step_s)


def test_the_free_chunk_is_free_and_one_more_is_not() -> None:
    flags: dict[str, Any] = {"engine": "ideal", "batch": 64, "context": 1024, "input_len": 389}
    free = run(**flags)
    assert free.free_chunk_tokens.bound == 389  # lesson 12, section 4, step 5
    assert free.chunks[0].step_time_s == pytest.approx(free.decode_step_s, rel=0.01)
    assert run(**flags | {"input_len": 512}).chunks[0].step_time_s > 1.2 * free.decode_step_s


def test_chunks_of_a_mixture_of_experts_are_not_free_while_experts_sleep() -> None:
    """A prompt's tokens wake experts that one decoding sequence leaves alone, and each must be read."""
    alone = run("gpt-oss-120b", batch=1, context=1024)
    assert alone.free_chunk_tokens.bound == 0
    assert run("llama-3-8b", batch=1, context=1024).free_chunk_tokens.bound > 200


@pytest.mark.parametrize("tpot", [0.018, 0.02, 0.03])
def test_the_chunk_for_a_target_keeps_it(tpot: float) -> None:
    result = run(input_len=16_384, batch=32, context=2048, tpot_s=f"{tpot}s")
    found = result.chunk_for_tpot
    assert found is not None
    assert found.chunk is not None
    assert found.worst_step_s is not None
    assert found.worst_step_s <= tpot * (1 + 1e-9)
    larger = run(input_len=16_384, batch=32, context=2048, own={"chunk": found.chunk + 64})
    assert max(one.step_time_s for one in larger.chunks) > tpot


def test_no_chunk_keeps_a_target_below_the_plain_step() -> None:
    found = run(input_len=4096, batch=64, context=1024, tpot_s="1ms").chunk_for_tpot
    assert found is not None
    assert found.chunk is None


def test_a_prefix_hit_shortens_the_prefill_and_widens_the_batch() -> None:
    hit = run(input_len=8192, context=8192, prefix_hit=6010).prefix
    assert hit is not None
    assert hit.tokens == 6000  # whole blocks of 16
    assert hit.time_s < hit.time_without_s
    assert hit.max_batch is not None
    assert hit.max_batch_without is not None
    assert hit.max_batch > 2 * hit.max_batch_without
    whole = run(input_len=8192, context=8192, prefix_hit=8192).prefix
    assert whole is not None
    assert whole.tokens == 8176  # the last token is computed: its logits are wanted


def test_shared_blocks_by_hand() -> None:
    """100,000 slots, sequences of 2,048 tokens that share 1,024: 1,024 once, 1,024 each."""
    result = run(engine="ideal", kv_memory_bytes=f"{100_000 * 131_072}B", context=2048, input_len=2048, batch=1,
                 prefix_hit=1024)  # fmt: skip
    assert result.prefix is not None
    assert result.prefix.max_batch == (100_000 - 1024) // 1024
    assert result.prefix.max_batch_without == 100_000 // 2048


def test_windows_are_handed_over_and_not_more() -> None:
    """gpt-oss: 18 of 36 layers keep 128 tokens; 8 KV heads of 64 elements, keys and values, two bytes."""
    deployed = Deployed(ask("gpt-oss-120b", {"gpu": "h100-sxm"}))
    per_token_and_layer = 2 * 8 * 64 * 2
    assert sent_bytes(deployed, 4096) == 18 * per_token_and_layer * (4096 + 128)
    halved = Deployed(ask("gpt-oss-120b", {"gpu": "h100-sxm", "tensor_parallel_size": "2"}))
    assert sent_bytes(halved, 4096) == sent_bytes(deployed, 4096) / 2


@given(st.floats(1e-4, 10), st.floats(1e-4, 10), st.integers(1, 128))
def test_overlap_hides_all_but_the_last_layer_or_what_the_link_is_behind(
    transfer: float, prefill: float, layers: int
) -> None:
    left = exposed(transfer, prefill, layers)
    assert transfer / layers <= left * (1 + 1e-12)
    assert left <= transfer
    assert prefill + left >= transfer * (1 - 1e-12)  # the link is never faster than itself


@settings(max_examples=20)
@given(st.integers(64, 16_384), st.integers(1, 64))
def test_swap_of_small_blocks_loses(tokens: int, batch: int) -> None:
    """Kwon et al. 2023, section 7.3: small blocks make many small copies; recomputation does not care."""
    found = run(input_len=tokens, batch=batch, context=1024).preemption
    times = [row.swap_s for row in found.by_block_size]
    assert times == sorted(times, reverse=True)
    assert found.by_block_size[0].swap_s > found.recompute_s


def test_pools_balance() -> None:
    """In balance a prefill replica makes as many requests per second as its share of decode replicas finishes."""
    result = run(engine="ideal", input_len=2048, output_len=512, batch=64, context=2304)
    pools = result.disaggregation
    assert pools is not None
    assert pools.disaggregated is not None
    made = pools.prefill_per_decode / result.bound_s
    finished = pools.disaggregated.batch / (512 * pools.disaggregated.tpot_s)
    assert made == pytest.approx(finished)
    assert pools.prompt_tokens_per_step == pytest.approx(64 * 2048 / 512)


def test_pools_need_an_output_length() -> None:
    assert run(input_len=2048, batch=64, context=1024).disaggregation is None


def test_long_answers_favour_chunks_and_strict_targets_favour_pools() -> None:
    """Zhong et al. 2024 (DistServe): separate pools pay where prompts disturb decoding beyond its target."""
    relaxed = run(engine="ideal", input_len=512, output_len=2048, batch=64, context=1536).disaggregation
    strict = run(input_len=8192, output_len=128, context=8256, tpot_s="9ms").disaggregation
    assert relaxed is not None
    assert strict is not None
    assert relaxed.better == "chunked"  # at the bound a chunk hides behind the reading of weights
    assert strict.better == "disaggregated"
