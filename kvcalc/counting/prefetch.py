"""Layers whose weights stay in the host's memory and are copied to the GPU ahead of their turn.

Of every `group_size` layers the last `num_in_group` stay there; buffers on the GPU hold `prefetch_step` of them.

Source: PrefetchOffloader in vllm/model_executor/offloader/prefetch.py and OffloaderV2 in sglang/srt/utils/offloader.py
"""

from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest
from kvcalc.counting.layout import layer_bytes, pipeline_stages
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec


class Prefetch(NamedTuple):
    """What one GPU fetches in every pass."""

    layers: int  # of the GPU's stage
    places: tuple[int, ...]  # of them, those that are fetched
    each_bytes: tuple[int, ...]  # of the weights of each of these
    ahead: int  # layers that are on their way, or wait in a buffer

    @property
    def host_bytes(self) -> int:
        """Weights in the host's memory."""
        return sum(self.each_bytes)

    @property
    def buffer_bytes(self) -> int:
        """Buffers on the GPU: equal tensors of different layers share one."""
        return min(self.ahead, len(self.places)) * max(self.each_bytes, default=0)

    @property
    def freed_bytes(self) -> int:
        """What a GPU has more for its cache."""
        return max(0, self.host_bytes - self.buffer_bytes)


def prefetch_of(model: ModelSpec, deployment: Deployment) -> Prefetch | None:
    """What `--offload-group-size` leaves to the host on the stage that fetches most; None: nothing is fetched.

    Raises:
        KvcalcError: more layers of a group than it has.
    """
    size, last = deployment.offload_group_size, deployment.offload_num_in_group
    if not size:
        return None
    if last > size:
        raise KvcalcError(
            f"--offload-num-in-group {last} is above --offload-group-size {size}",
            hint="of each group the last layers are fetched: give at most the group's size",
        )
    found = []
    for stage in pipeline_stages(model, deployment.pipeline_parallel_size):
        layers = sorted(stage)
        places = tuple(place for place in range(len(layers)) if place % size >= size - last)
        each = tuple(layer_bytes(model, deployment.layout, layers[place]) for place in places)
        found.append(Prefetch(len(layers), places, each, deployment.offload_prefetch_step))
    most = max(found, key=lambda one: one.host_bytes)
    return most if most.places else None


def copied_layer_bytes(model: ModelSpec, deployment: Deployment) -> int:
    """Room on one GPU for the copies that `--cpu-offload-gb` makes where it copies: of the largest layer, or of all.

    Unit: bytes
    Source: maybe_offload_to_cpu of vLLM 0.8 in model_executor/models/utils.py: copies of a layer live while it computes
    """
    stages = pipeline_stages(model, deployment.pipeline_parallel_size)
    largest = max(layer_bytes(model, deployment.layout, layer) for stage in stages for layer in stage)
    return min(deployment.cpu_offload_bytes, largest)


def with_copies(computing_s: Quantity, bytes_per_s: float, what: Prefetch) -> Quantity:
    """Seconds of a pass whose layers wait for their copies, which run one after the other beside the computing.

    A layer's copy starts when the layer `ahead` of it in the row of those fetched is through; those of the next pass
    end before this one does.

    Args:
        computing_s: of the pass without any waiting, even over the layers.
        bytes_per_s: of the link to the host.
        what: layers and their bytes.

    Two layers of eight, 1 ms of computing each; a copy of 4 ms hides behind three layers but for 1 ms:

    >>> one = Prefetch(8, (3, 7), (4_000_000, 4_000_000), 1)
    >>> round(with_copies(8e-3, 1e9, one) * 1e3, 6), round(with_copies(80e-3, 1e9, one) * 1e3, 6)
    (13.0, 84.0)

    Unit: s
    Source: PrefetchOffloader._hook_module_forward and join_after_forward in the file above
    """
    layer_s, copied_s = computing_s / what.layers, [size / bytes_per_s for size in what.each_bytes]
    count, before = len(what.places), -1
    now: Quantity = 0.0
    link: Quantity = 0.0  # when the link is free
    ready: list[Quantity] = [0.0] * count  # the first ones were fetched while the last pass ended
    for turn, place in enumerate(what.places):
        now = greatest(now + (place - before - 1) * layer_s, ready[turn]) + layer_s
        behind = (turn + what.ahead) % count
        link = greatest(link, now) + copied_s[behind]
        ready[behind] = link
        before = place
    return greatest(now + (what.layers - 1 - before) * layer_s, link)
