"""`--quantization` and `--dtype` on a checkpoint that says otherwise."""

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.catalog.quantization.online import FORMATS, redtype, requantize
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace

LLAMA = load_model("llama-3-8b")
LINEARS = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096)  # of the layers: q, o, k, v, gate, up, down
MATRICES = 32 * 7
REST = 2 * (8_030_261_248 - LINEARS)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("fp8", LINEARS + 4 * MATRICES),
        ("FP8", LINEARS + 4 * MATRICES),
        ("int8", LINEARS + 4 * 32 * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096)),
        ("awq", LINEARS // 2 + LINEARS // 64 + LINEARS // 256),
        ("gptq", LINEARS // 2 + LINEARS // 64 + LINEARS // 256 + 4 * 32 * (6 * 4096 + 14336)),
        ("nvfp4", LINEARS // 2 + LINEARS // 16 + 8 * MATRICES),
        ("mxfp4", LINEARS // 2 + LINEARS // 32),
        ("bitsandbytes", LINEARS // 2 + LINEARS // 16 + 64 * MATRICES),
    ],
)
def test_sizes_of_llama_3_8b(name: str, size: int) -> None:
    model = requantize(LLAMA, name)
    assert counted_weight_bytes(model) == size + REST
    assert [a.name for a in model.assumptions] == ["quantization"]


def test_every_name_applies() -> None:
    for name in FORMATS:
        assert counted_weight_bytes(requantize(LLAMA, name)) < 16_060_522_496


def test_a_quantized_checkpoint_is_left_alone_or_refused() -> None:
    model = load_model("gpt-oss-120b")
    same = requantize(model, "mxfp4")
    assert replace(same, assumptions=model.assumptions) == model
    assert "nothing changes" in same.assumptions[-1].why
    with pytest.raises(KvcalcError, match="already quantized"):
        requantize(model, "awq")


@pytest.mark.parametrize("name", ["compressed-tensors", "auto-round", "modelopt", "inc", "fp8"])
def test_words_that_repeat_what_the_checkpoint_declares_change_nothing_and_are_said(name: str) -> None:
    model = load_model("deepseek-v3")
    same = requantize(model, name)
    assert replace(same, assumptions=model.assumptions) == model
    assert (same.assumptions[-1].value, "repeats" in same.assumptions[-1].why) == (name, True)
    if name != "fp8":
        with pytest.raises(KvcalcError, match="declares no quantization"):
            requantize(LLAMA, name)


def test_narrower_builds_of_a_model_that_is_published_in_fp8() -> None:
    """DeepSeek-V3's linears in 4 bits with a scale and a zero point for 128, the rest as the fp8 checkpoint has it."""
    model = load_model("deepseek-v3")
    awq = requantize(model, "awq")
    assert awq.quantization == "awq"
    assert "dequantized" in awq.assumptions[-1].why
    formats = {t.format.name for group in awq.groups for t in group.tensors if t.category == "experts"}
    assert formats == {"int4-g128"}
    assert counted_weight_bytes(awq) < 0.56 * counted_weight_bytes(model)
    for wider in ("mxfp8", "int8"):
        with pytest.raises(KvcalcError, match="already quantized"):
            requantize(model, wider)


def test_gguf_types_are_llama_cpps() -> None:
    assert requantize(LLAMA, "q4_k_m", ("gguf",)).quantization == "gguf Q4_K_M"
    assert requantize(LLAMA, "q4_k_m", ("scheme", "gguf")).quantization == "gguf Q4_K_M"
    # One word, two meanings: llama.cpp's mix, and the scheme of checkpoints.
    assert requantize(LLAMA, "nvfp4", ("gguf",)).quantization == "gguf NVFP4"
    assert requantize(LLAMA, "nvfp4").quantization == "nvfp4"
    with pytest.raises(KvcalcError, match="the engine is vllm") as caught:
        requantize(LLAMA, "q4_k_m")
    assert "--engine llamacpp" in caught.value.hint
    with pytest.raises(KvcalcError, match="fp8 is no GGUF type") as caught:
        requantize(LLAMA, "fp8", ("gguf",))
    assert "q8_0" in caught.value.hint
    with pytest.raises(KvcalcError, match="unknown GGUF type"):
        requantize(LLAMA, "banana", ("gguf",))
    made = requantize(LLAMA, "q4_k_m", ("gguf",))
    assert requantize(made, "Q4_K_M", ("gguf",)).groups == made.groups
    with pytest.raises(KvcalcError, match="is a GGUF already"):
        requantize(made, "q8_0", ("gguf",))


@pytest.mark.parametrize("bits, made", [("int4", "Q4_K_M"), ("w4a16", "Q4_K_M"), ("W8A16", "Q8_0")])
def test_bits_alone_mean_llama_cpps_usual_type_of_them(bits: str, made: str) -> None:
    """llama-server's README: `-hf` takes Q4_K_M where no type is said."""
    found, named = requantize(LLAMA, bits, ("gguf",)), requantize(LLAMA, made, ("gguf",))
    assert (found.quantization, found.groups, found.tensors) == (named.quantization, named.groups, named.tensors)
    said = [one for one in found.assumptions if one not in named.assumptions]
    assert [(one.name, one.value) for one in said] == [("quantization", made)]


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(KvcalcError) as caught:
        requantize(LLAMA, "nvfp5")
    assert "nvfp4" in caught.value.hint


def test_dtype() -> None:
    assert redtype(LLAMA, "auto") == redtype(LLAMA, "bfloat16") == LLAMA
    assert counted_weight_bytes(redtype(LLAMA, "float32")) == 2 * counted_weight_bytes(LLAMA)
    half = redtype(LLAMA, "half")
    assert (half.dtype, counted_weight_bytes(half)) == ("fp16", 16_060_522_496)
    assert [a.name for a in half.assumptions] == ["dtype"]
    with pytest.raises(KvcalcError):
        redtype(LLAMA, "int4")


def test_the_files_size_no_longer_counts() -> None:
    exact = replace(LLAMA, weight_file_bytes=16_060_522_496)
    assert requantize(exact, "fp8").weight_file_bytes is None
