"""A prefix cache with the host's memory behind it: the same requests through a cache that is as much larger.

What is found in the larger cache alone would come over the link, whose time is given beside it. The run itself keeps
the GPU's cache: how much of the loading hides behind other requests' steps is the engine's doing and not modelled.
"""

import dataclasses

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.prefill.cache import preemption, sent_bytes
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.results.simulate import Offload

MANY_BLOCKS = 1024  # over which the bytes and seconds of one are taken


def offload_of(deployed: Deployed, asked: SimulateSettings, replica: Simulated, one: Latencies) -> Offload | None:
    """None: it was not asked for.

    Raises:
        KvcalcError: no prefix cache to extend, or the way to the host is not known.
    """
    if not asked.kv_offload_bytes:
        return None
    settings = replica.settings
    if not settings.prefix_caching:
        raise KvcalcError("--kv-offload-gb extends a prefix cache, and it is off", hint="give --enable-prefix-caching")
    tokens = settings.block_size * MANY_BLOCKS
    seconds = preemption(deployed, tokens, 1.0)[0].swap_one_way_s
    if seconds is None:
        raise KvcalcError("the GPU's link to the host is not known", hint="leave --kv-offload-gb out")
    blocks = int(asked.kv_offload_bytes / (sent_bytes(deployed, tokens) / MANY_BLOCKS))
    larger = dataclasses.replace(settings, num_blocks=settings.num_blocks + blocks)
    found = run(dataclasses.replace(replica, settings=larger), one.requests)
    loaded = max(0, found.hit - one.outcome.hit) / len(one.requests)
    return Offload(
        blocks=blocks,
        prefix_hit_rate=found.hit / found.queried if found.queried else None,
        loaded_tokens_per_request=loaded,
        load_s_per_request=loaded * seconds / tokens,
    )
