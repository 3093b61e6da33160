"""What changed between versions of vLLM: each rule with the first version that has it.

Source: vllm/config.py and vllm/worker/cache_engine.py of 0.5.1, 0.6.4, 0.6.6, 0.7.0 and 0.7.1, and from
vllm/v1/core/kv_cache_utils.py (kv_cache_planning.py in 0.33), vllm/v1/kv_cache_interface.py and
vllm/model_executor/models/config.py of 0.9.2, 0.11 to 0.14, 0.16 to 0.18, 0.20 to 0.22, 0.24 to 0.26, 0.28 to 0.30
and 0.33.
"""

from fractions import Fraction
from functools import cache

from kvcalc.engines.memory.data import version_of
from kvcalc.specs.base import Frozen
from kvcalc.specs.build import build
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.versions import since

BATCHED_TOKENS = 8192  # max_num_batched_tokens of a server on a GPU of 70 GiB or more


class Planning(Frozen):
    """How one version plans its pool."""

    # Latents were cached as full heads, keys and values of one width: this one (FlashAttention had no 192), 0 for the
    # keys' own; None: as latents.
    expanded_head: int | None = 256
    windows_as_full: bool = True  # no groups: a windowed layer is given every token
    # The size of a group is the smallest class of layers; the largest where that is below this many times the
    # smallest, so that a draft layer or two does not double the groups.
    widest_group: Fraction = Fraction(1)
    needs_padding: bool = False  # "GiB KV cache is needed" charges the padded layers of a group
    charges_all_stages: bool = False  # the check at start-up asks one stage to hold every stage's layers
    reports_concurrency: bool = False  # "GPU KV cache size" is concurrency × max_model_len, else blocks // groups
    reserves_batches: bool = False  # windows reserve for every batch in flight, not for one
    holds_null_block: bool = False  # the check at start-up leaves out the block that is never given
    sparse_latent_is_fp8: bool = False  # `auto` means fp8 where an indexer chooses what to read
    aligns_state: bool = False  # prefix caching keeps a second state page for each sequence
    compressed_layout: str = "tuples"  # how a block of compressed attention's pages is laid out: tuples|buckets|packed
    charges_tuples: bool = True  # the check at start-up charges it as `tuples`, however it is laid out
    caches_hybrid_prefixes: bool = False  # prefix caching is on by default where layers have states


CHANGES: tuple[tuple[str, dict[str, object]], ...] = (
    ("0.7", {"expanded_head": 0}),
    ("0.7.1", {"expanded_head": None}),
    ("0.9.2", {"windows_as_full": False, "sparse_latent_is_fp8": True}),
    ("0.12", {"widest_group": Fraction(5, 4), "sparse_latent_is_fp8": False}),
    ("0.14", {"needs_padding": True, "charges_all_stages": True}),
    ("0.16", {"aligns_state": True}),
    ("0.17", {"charges_all_stages": False}),
    ("0.18", {"widest_group": Fraction(3, 2)}),
    ("0.21", {"reports_concurrency": True}),
    ("0.24", {"compressed_layout": "buckets"}),
    ("0.26", {"reserves_batches": True, "caches_hybrid_prefixes": True}),
    ("0.28", {"compressed_layout": "packed"}),
    ("0.29", {"holds_null_block": True, "charges_tuples": False}),
)


@cache
def planning_of(text: str | None) -> Planning:
    """The rules that hold for a version; None: the newest that was read.

    >>> planning_of("0.17").widest_group, planning_of(None).reserves_batches
    (Fraction(5, 4), True)
    """
    version = version_of("vllm", text)
    chosen: dict[str, object] = {}
    for first, change in CHANGES:
        if since(version, first):
            chosen |= change
    return build(Planning, chosen)


def in_flight_tokens(deployment: Deployment, rules: Planning) -> int:
    """Tokens that may be scheduled and not yet settled: windows keep their blocks beside what they hold.

    One batch; since 0.26 one for each batch under way (asynchronous scheduling runs one more than the pipeline's
    stages).

    Unit: tokens
    Source: max_memory_usage_bytes of SlidingWindowSpec and ChunkedLocalAttentionSpec in vllm/v1/kv_cache_interface.py
    """
    batch = deployment.max_num_batched_tokens or BATCHED_TOKENS
    return batch * (deployment.pipeline_parallel_size + 1) if rules.reserves_batches else batch


def state_pages(deployment: Deployment, rules: Planning, hybrid: bool) -> int:
    """Pages of one sequence's state in each group: one, one more to restart from, one for each drafted token.

    Args:
        hybrid: whether the model has attention too; a purely recurrent one caches no prefixes unless it is asked to.

    Unit: pages
    Source: MambaSpec.max_memory_usage_bytes in vllm/v1/kv_cache_interface.py: 1 or, aligned, 2, and
    num_speculative_blocks
    """
    asked = deployment.enable_prefix_caching
    caching = rules.caches_hybrid_prefixes and hybrid if asked is None else asked
    return (2 if caching and rules.aligns_state else 1) + deployment.num_speculative_tokens
