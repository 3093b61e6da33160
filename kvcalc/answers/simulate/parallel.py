"""Independent runs on all cores, or on a cluster; the results are those of one process, to the bit."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from kvcalc.errors import KvcalcError

Item = TypeVar("Item")
Found = TypeVar("Found")


def mapped(
    function: Callable[[Item], Found], items: Sequence[Item], processes: int | None = None, ray: str | None = None
) -> list[Found]:
    """`function` of every item, in their order.

    Args:
        function: a module's own, for it goes to other processes.
        items: what it is called with.
        processes: at most; None: as many as there are cores; 1: here.
        ray: address of a Ray cluster; None: this machine.

    Raises:
        KvcalcError: Ray is not installed or not there; and whatever `function` raises.
    """
    told = partial(_told, function)
    if ray is not None:
        return [_found(one) for one in _on_ray(told, items, ray)]
    count = min(len(items), processes or cores())
    if count <= 1:
        return [function(item) for item in items]
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(count) as pool:
        return [_found(one) for one in pool.map(told, items)]


def _told(function: Callable[[Item], Found], item: Item) -> tuple[Found | None, tuple[str, str] | None]:
    """What came of one item: an error goes from process to process as its words."""
    try:
        return function(item), None
    except KvcalcError as error:
        return None, (error.message, error.hint)


def _found(told: tuple[Any, tuple[str, str] | None]) -> Any:
    found, error = told
    if error is not None:
        raise KvcalcError(error[0], hint=error[1])
    return found


def cores() -> int:
    """That this process may use."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _on_ray(function: Callable[[Item], Found], items: Sequence[Item], address: str) -> list[Found]:
    try:
        import ray
        from ray.util.multiprocessing import Pool
    except ImportError as error:
        hint = "pip install 'kvcalc[ray]', or leave --ray out: all cores of this machine are used anyway"
        raise KvcalcError("--ray: Ray is not installed", hint=hint) from error
    # one that starts here ends with the answer: nobody looks at its dashboard, which takes longest to start
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {"address": address}
    try:
        if not ray.is_initialized():
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
        with Pool(ray_address=None if address == "local" else address) as pool:
            return list(pool.map(function, items))
    except ConnectionError as error:
        raise KvcalcError(f"--ray: no cluster at {address}: {error}", hint="`ray start --head` prints one") from error
