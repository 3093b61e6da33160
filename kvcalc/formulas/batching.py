"""Latency and service: what one user waits for, and how many are served within their targets."""

from collections.abc import Sequence
from typing import Any


def time_to_first_token(queue_s: float, prefill_s: float) -> float:
    """TTFT: the wait in the queue, and the prefill.

    Args:
        queue_s: Time in the queue, s.
        prefill_s: Time from the start of the prefill to the first token, s.

    Formula: queue_s + prefill_s
    Unit: s
    Source: Zhong et al. 2024 (DistServe), section 2

    >>> time_to_first_token(queue_s=0.25, prefill_s=0.5)
    0.75
    """
    return queue_s + prefill_s


def time_per_output_token(first_token_s: float, last_token_s: float, output_tokens: float) -> float:
    """TPOT of one request: the mean time between its later tokens. Of at least two tokens.

    Args:
        first_token_s: When the first token came, s.
        last_token_s: When the last token came, s.
        output_tokens: Tokens of the answer, the first included.

    Formula: (last_token_s - first_token_s) / (output_tokens - 1)
    Unit: s
    Source: Zhong et al. 2024 (DistServe), section 2

    >>> time_per_output_token(first_token_s=1, last_token_s=6, output_tokens=101)
    0.05
    """
    return (last_token_s - first_token_s) / (output_tokens - 1)


def end_to_end_latency(ttft_s: float, tpot_s: float, output_tokens: float) -> float:
    """Time from a request to its last token.

    Args:
        ttft_s: Time to the first token, s.
        tpot_s: Time per later token, s.
        output_tokens: Tokens of the answer, the first included.

    Formula: ttft_s + (output_tokens - 1) * tpot_s
    Unit: s
    Source: Zhong et al. 2024 (DistServe), section 2

    >>> end_to_end_latency(ttft_s=1, tpot_s=0.05, output_tokens=101)
    6.0
    """
    return ttft_s + (output_tokens - 1) * tpot_s


def tpot_with_prefills(step_time_s: float, prefill_s: float, batch: float, output_tokens: float) -> float:
    """Mean TPOT in steady continuous batching, where every sequence also waits through the others' prefills.

    While one sequence decodes its `output_tokens`, each of the other `batch - 1` slots takes in one prompt.

    Args:
        step_time_s: Time of a decode step, s.
        prefill_s: Time of one prompt's prefill, s.
        batch: Running sequences.
        output_tokens: Tokens of an answer.

    Formula: step_time_s + (batch - 1) * prefill_s / output_tokens
    Unit: s
    Source: Yu et al. 2022 (Orca), section 3, prefills run as iterations of the same batch; rate balance

    >>> tpot_with_prefills(step_time_s=0.01, prefill_s=0.05, batch=65, output_tokens=320)
    0.02
    """
    return step_time_s + (batch - 1) * prefill_s / output_tokens


def concurrency(requests_per_s: float, latency_s: float) -> float:
    """Requests in the system on average: Little's law.

    Args:
        requests_per_s: Rate of requests.
        latency_s: Mean time from a request to its last token, s.

    Formula: requests_per_s * latency_s
    Unit: requests
    Source: Little 1961

    >>> concurrency(requests_per_s=4, latency_s=2.5)
    10.0
    """
    return requests_per_s * latency_s


def static_batch_slot_use(output_tokens: Sequence[int]) -> float:
    """Share of the slots' steps that do work when a batch runs until its longest answer ends.

    Args:
        output_tokens: Tokens of each answer in the batch.

    Unit: 1
    Source: Yu et al. 2022 (Orca), section 3.1

    >>> static_batch_slot_use([25, 50, 75, 100])
    0.625
    """
    return sum(output_tokens) / (len(output_tokens) * max(output_tokens))


def within_targets(ttft_s: Any, tpot_s: Any, ttft_target_s: float, tpot_target_s: float) -> Any:
    """Which requests meet both targets. An answer of one token has no TPOT: pass NaN, and only its TTFT counts.

    Args:
        ttft_s: Time to the first token of each request, s; a list or an array.
        tpot_s: Time per output token of each request, s; a list or an array.
        ttft_target_s: Target for the first token, s.
        tpot_target_s: Target per output token, s.

    Returns:
        A boolean array.

    Unit: 1
    Source: Zhong et al. 2024 (DistServe), section 2

    >>> within_targets([0.5, 2.0], [0.03, 0.03], ttft_target_s=1, tpot_target_s=0.05).tolist()
    [True, False]
    """
    import numpy as np

    slow = np.asarray(tpot_s, dtype=float) > tpot_target_s
    return (np.asarray(ttft_s, dtype=float) <= ttft_target_s) & ~slow


def goodput(ttft_s: Any, tpot_s: Any, ttft_target_s: float, tpot_target_s: float, duration_s: float) -> float:
    """Requests per second that finish within both targets.

    Args:
        ttft_s: Time to the first token of each finished request, s; a list or an array.
        tpot_s: Time per output token of each, s; NaN where the answer is one token.
        ttft_target_s: Target for the first token, s.
        tpot_target_s: Target per output token, s.
        duration_s: Time over which the requests finished, s.

    Unit: requests/s
    Source: Zhong et al. 2024 (DistServe), section 2

    >>> goodput([0.5, 0.8, 2.0], [0.03, 0.09, 0.03], ttft_target_s=1, tpot_target_s=0.05, duration_s=2)
    0.5
    """
    return float(within_targets(ttft_s, tpot_s, ttft_target_s, tpot_target_s).sum() / duration_s)
