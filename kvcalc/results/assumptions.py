"""Which assumptions the user can change, and with which flag."""

from kvcalc.specs.base import Assumption, field_names
from kvcalc.specs.checked import flag_of
from kvcalc.specs.deployment import SETTLED, Deployment
from kvcalc.specs.load import Workload

_FIELDS = {*field_names(Deployment), *field_names(Workload)} - {*SETTLED}
# Assumptions by other names than a field's.
_NAMED = {
    "price": "--price",
    "gpu": "--gpu",
    "machine": "--gpu",
    "acceptance": "--acceptance",
    "overhead": "--overhead",
    "mem_fraction_static": "--mem-fraction-static",
    "free_gpu_memory_fraction": "--free-gpu-memory-fraction",
    "host memory bandwidth": "--host-memory-bandwidth",
    "layers on the GPU": "-ngl",
    "draft tensor_parallel_size": "--tensor-parallel-size",
}


def flag_for(assumption: Assumption) -> str | None:
    """The flag that says otherwise; None: there is none.

    >>> flag_for(Assumption(name="max_num_seqs", value=256, why="the default"))
    '--max-num-seqs'
    """
    name = assumption.name
    if name.startswith("-"):
        return name
    return _NAMED.get(name) or (flag_of(name) if name in _FIELDS else None)
