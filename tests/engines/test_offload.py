"""How weights come from the host's memory, by engine and version; each rule's source stands with it in `rules.py`."""

import pytest

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.errors import KvcalcError

LAYER = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096)  # bytes, of Llama 3 8B in bf16


def deployed(**flags: str) -> Deployed:
    return Deployed(ask("llama-3-8b", {"gpu": "h100-sxm", "batch": "1", "context": "1024", **flags}))


@pytest.mark.parametrize("engine, version, copies", [
    ("vllm", "0.6.3", True), ("vllm", "0.8.2", True), ("vllm", "0.8.3", False), ("vllm", None, False),
    ("sglang", "0.4", True), ("sglang", None, True),
])  # fmt: skip
def test_copies_or_direct_reads(engine: str, version: str | None, copies: bool) -> None:
    one = deployed(engine=engine, cpu_offload_bytes="4", **({"engine_version": version} if version else {}))
    assert one.engine.copies_weights(version) is copies
    said = next(each.why for each in assumptions_of(one) if each.name == "cpu offload")
    assert ("copied over its link" in said, "UVA" in said) == (copies, not copies)


def test_copies_of_the_largest_layer_are_in_the_profile_run() -> None:
    """The weights on the GPU are less by 4 GiB; where layers are copied, one of them is there again."""
    read, copied = (deployed(engine_version=version, cpu_offload_bytes="4") for version in ("0.8.3", "0.8.2"))
    assert copied.budget.weights - read.budget.weights == LAYER
    few = deployed(engine_version="0.8.2", cpu_offload_bytes="0.1")
    assert few.budget.weights == deployed(engine_version="0.8.2").budget.weights


def test_layers_are_fetched_ahead_since_a_version() -> None:
    assert deployed(engine_version="0.17", offload_group_size="4").prefetch is not None
    with pytest.raises(KvcalcError, match=r"came with vLLM 0\.17, and 0\.16\.0 is older"):
        deployed(engine_version="0.16.0", offload_group_size="4").prefetch  # noqa: B018


def test_of_both_flags_each_engine_takes_another() -> None:
    both = {"offload_group_size": "4", "cpu_offload_bytes": "4"}
    fetched, copied = deployed(**both), deployed(engine="sglang", **both)
    assert (fetched.prefetch is not None, fetched.replica.offload_bytes) == (True, 0)
    assert (copied.prefetch, copied.replica.offload_bytes) == (None, 4 * 2**30)


@pytest.mark.parametrize("flag", [{"offload_group_size": "4"}, {"cpu_offload_bytes": "4"}])
def test_tensorrt_llm_keeps_all_weights_on_the_gpu(flag: dict[str, str]) -> None:
    with pytest.raises(KvcalcError, match="keeps all weights on the GPU"):
        deployed(engine="trtllm", **flag).prefetch  # noqa: B018
