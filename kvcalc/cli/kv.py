"""`kvcalc kv`."""

from kvcalc.cli.flags import ENGINE, LAYOUT, NUMBERS, OUTPUT, SERVE, WORKLOAD
from kvcalc.cli.options import Flags, ModelsArgument, takes
from kvcalc.cli.output import DRAWN, FORMATS, PICTURES, Output

_CACHE = tuple(flag for flag in NUMBERS if flag.field != "quantization")
_WHERE = tuple(flag for flag in WORKLOAD if flag.field in ("context", "batch"))


_SAYS = {
    "context": "Cached tokens per sequence; may be repeated. Default: some up to the model's.",
    "batch": "Sequences that the totals are for. Default: 1.",
    "engine": "What it sets aside: ideal (default), vllm, sglang, trtllm or llamacpp.",
    "kv_cache_dtype": "auto, bf16, fp8, int8, nvfp4, ...; may be repeated.",
    **DRAWN,
}


@takes(_CACHE, _WHERE, SERVE, ENGINE, LAYOUT, OUTPUT, repeated=frozenset({"context", "kv_cache_dtype"}), says=_SAYS)
def command(models: ModelsArgument, flags: Flags) -> None:
    """What one token and one sequence of cache cost, by kind of layer and by context.

    \b
      kvcalc kv llama-3-8b
      kvcalc kv llama-3-8b gemma-3-27b deepseek-v3 --context 128K
      kvcalc kv llama-2-7b --context 4096 --batch 32
      kvcalc kv gpt-oss-120b --engine vllm      what the engine sets aside for it
      kvcalc kv qwen3-next-80b-a3b --kv-cache-dtype bf16 --kv-cache-dtype fp8
    """
    output = Output(flags, formats=(*FORMATS, *PICTURES))
    from kvcalc.answers.kv.ask import kv_from
    from kvcalc.render.pages.kv import page, pictures, rows

    output.emit(kv_from(models, flags), page, rows, pictures)
