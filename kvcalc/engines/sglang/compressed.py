"""Compressed attention (DeepSeek-V4): vectors by token, windows by a share of the tokens, states by request.

    tokens = (pool - states of the long ratio) / (share * window cell + full cell)

Source: DSV4PoolConfigurator in sglang/srt/model_executor/pool_configurator.py and get_compress_state_ring_size in
mem_cache/deepseek_v4_memory_pool.py (0.5.15 to 0.5.23).
"""

from collections.abc import Iterator
from fractions import Fraction

from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.memory.data import memory_constants, version_of
from kvcalc.engines.vllm.pages import index_bytes
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import CompressedAttention, ModelSpec
from kvcalc.specs.versions import since

PAGE = 256  # tokens
WINDOW_SHARE = Fraction(1, 10)  # DSV4_DEFAULT_SWA_FULL_TOKENS_RATIO
ALIGNMENT = 576  # bytes: FlashMLA's pages are whole multiples
SCALE_BYTES = 8
STATE_BYTES = 4  # float32
SHORT, LONG = 4, 128  # ratios; the windows of the short one overlap, so its states are twice as wide
RINGS = {SHORT: 8, LONG: 128}  # rows of a request's or a page's state; drafts take twice as many
CAPPED_SINCE = "0.5.21"  # with --max-running-requests, windows are sized by requests
TAILS = 4  # cached ends of prefixes for each running request
LEAST_REQUESTS, MOST_REQUESTS, REQUESTS_PER_LENGTH = 2048, 4096, 512


def is_compressed(model: ModelSpec) -> bool:
    """Whether the model has such layers: all of its layers are, then."""
    return any(isinstance(mixer, CompressedAttention) for group in model.groups for mixer in group.mixers)


def compressed_capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, stage: frozenset[int]) -> Capacity:
    """Slots of tokens and windows in `pool_bytes` on one GPU."""
    full, window = full_cell(model, stage, deployment), _window_cell(model, stage, deployment)
    length = length_of(model, deployment)
    capped = _capped_windows(model, deployment)
    cell = full if capped is not None else full + WINDOW_SHARE * window
    requests = deployment.max_num_seqs or _running(int(pool_bytes / cell), length)
    fixed = _long_states(model, stage, deployment, requests) + (capped or 0) * window
    tokens = max(0, int((pool_bytes - fixed) / cell)) // PAGE * PAGE
    windowed = capped if capped is not None else int(tokens * WINDOW_SHARE) // PAGE * PAGE
    return Capacity(
        pools=(_pool("full", tokens, full), _pool("sliding", windowed, window, _window(model))),
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=tokens,
        max_model_len=length,
        rule="full tokens: slots of compressed vectors, times their ratio",
        rounding=f"pages of {PAGE} tokens, {windowed:,} windowed slots, states of {requests:,} requests",
    )


def _layers(model: ModelSpec, stage: frozenset[int], deployment: Deployment) -> Iterator[CompressedAttention]:
    for group in model.groups:
        for _ in stage.intersection(group.layers):
            yield from (mixer for mixer in group.mixers if isinstance(mixer, CompressedAttention))


def _inflated(model: ModelSpec, deployment: Deployment) -> Fraction:
    """A draft layer's pools are as the target's: (T + 1) / T."""
    return Fraction(model.layers + 1, model.layers) if deployment.num_speculative_tokens else Fraction(1)


def _paged_vector(mixer: CompressedAttention, page: int) -> Fraction:
    """Bytes of one vector, its share of the page's padding with it: fp8, a 16-bit rotary part, scales."""
    vector = mixer.head_dim - mixer.rope_head_dim + mixer.rope_head_dim * 2 + SCALE_BYTES
    return Fraction(-(-page * vector // ALIGNMENT) * ALIGNMENT, page)


def full_cell(model: ModelSpec, stage: frozenset[int], deployment: Deployment) -> Fraction:
    """Bytes of one token in all compressed layers of a stage: vectors and index keys, divided by their ratio.

    Unit: bytes
    """
    found = Fraction(0)
    for mixer in _layers(model, stage, deployment):
        if mixer.ratio:
            found += _paged_vector(mixer, PAGE // mixer.ratio) / mixer.ratio
            found += Fraction(index_bytes(mixer.indexer), mixer.ratio) if mixer.indexer else 0
    return found * _inflated(model, deployment)


def _window_cell(model: ModelSpec, stage: frozenset[int], deployment: Deployment) -> Fraction:
    """Bytes of one windowed slot in all layers, the short ratio's states by page with it."""
    found = Fraction(0)
    for mixer in _layers(model, stage, deployment):
        found += _paged_vector(mixer, PAGE)
        if mixer.ratio == SHORT:
            widths = mixer.head_dim + (mixer.indexer.head_dim if mixer.indexer else 0)
            found += Fraction(_ring(SHORT, deployment) * 2 * 2 * widths * STATE_BYTES, PAGE)
    return found * _inflated(model, deployment)


def _ring(ratio: int, deployment: Deployment) -> int:
    return RINGS[ratio] * (2 if deployment.num_speculative_tokens else 1)


def _long_states(model: ModelSpec, stage: frozenset[int], deployment: Deployment, requests: int) -> int:
    """Bytes of the long ratio's states: a ring for every request that may run, and one more."""
    ring = _ring(LONG, deployment)
    rows = -(-((requests + 1) * ring + ring + 1) // LONG) * LONG
    held = (mixer for mixer in _layers(model, stage, deployment) if mixer.ratio == LONG)
    return sum(rows * 2 * mixer.head_dim * STATE_BYTES for mixer in held)


def _running(tokens: int, length: int | None) -> int:
    """Requests that may run where nothing is said."""
    estimated = tokens * REQUESTS_PER_LENGTH // (length or 1)
    return min(max(min(estimated, MOST_REQUESTS), LEAST_REQUESTS), tokens // 2)


def _capped_windows(model: ModelSpec, deployment: Deployment) -> int | None:
    """Windowed slots where running requests are given: a window, a page of the next and one of padding for each, two
    chunks in flight, and the ends of cached prefixes. None: a share of the tokens.

    Source: _resolve_swa_cap_tokens and compute_swa_request_cap (0.5.21 to 0.5.23)
    """
    version = version_of("sglang", deployment.engine_version)
    requests = deployment.max_num_seqs
    if requests is None or not since(version, CAPPED_SINCE):
        return None
    window, drafts = _window(model), deployment.num_speculative_tokens + 1
    interval = int(memory_constants("sglang")["window_eviction_interval"])
    each = window + interval * drafts + 2 * PAGE
    chunk = deployment.max_num_batched_tokens or int(memory_constants("sglang")["usual_prefill"])
    tails = 0 if deployment.enable_prefix_caching is False else TAILS * requests
    slots = each * requests + 2 * chunk + PAGE + tails * (window + PAGE)
    return -(-slots // PAGE) * PAGE


def _window(model: ModelSpec) -> int:
    return max(
        mixer.window for group in model.groups for mixer in group.mixers if isinstance(mixer, CompressedAttention)
    )


def _pool(name: str, tokens: int, cell: Fraction, window: int | None = None) -> Pool:
    group = Group(
        kind="latent" if window is None else "sliding_latent",
        layers=1,
        page_bytes=int(cell * PAGE),
        block_size=PAGE,
        most_tokens=None if window is None else window + PAGE,
        token_bytes=float(cell),
        window=window,
    )
    return Pool(name=name, num_blocks=tokens // PAGE, block_bytes=int(cell * PAGE), groups=(group,))
