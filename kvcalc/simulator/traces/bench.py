"""vLLM's bench results (`vllm bench serve --save-result --save-detailed`): one list a quantity, one entry a request.

Source: vllm/benchmarks/serve.py (`result` of `benchmark`): input_lens, output_lens, ttfts, itls, start_times, errors.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kvcalc.errors import KvcalcError
from kvcalc.simulator.traces.trace import Row

KEYS = ("input_lens", "output_lens", "ttfts", "itls")


def rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """One row a request that was answered.

    Raises:
        KvcalcError: the file does not say when requests were sent.
    """
    starts = result.get("start_times")
    if starts is None:
        raise KvcalcError(
            "the bench result has no start_times: it does not say when requests came",
            hint="newer vLLM writes them with --save-detailed; or give --request-rate and the lengths",
        )
    errors = result.get("errors") or [""] * len(starts)
    for start, prompt, output, ttft, gaps, error in zip(
        starts, result["input_lens"], result["output_lens"], result["ttfts"], result["itls"], errors, strict=True
    ):
        if not error:
            yield Row(start, prompt, output, None, start + ttft, start + ttft + sum(gaps))
