"""Is the device to itself? Its own bandwidth from time to time, and on a CPU what other processes take of it."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from kvcalc.errors import KvcalcError
from kvcalc.executor.device import Device

MOVED = 1.2  # a bandwidth that moved by more than this is another device
OTHERS = 0.1  # of the processors: more than this taken by other processes disturbs
GLANCE_S = 0.2  # to see what others take
PATIENCE_S = 60.0


class Others:
    """What other processes take of the processors, as a share of all, since this was made or last asked."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._last = _busy()

    def share(self) -> float:
        """0 for a GPU, whose work does not wait for processors, and where the system does not say."""
        last, self._last = self._last, _busy()
        if self.device.is_gpu or last is None or self._last is None:
            return 0.0
        wall, busy, own = (now - then for now, then in zip(self._last, last, strict=True))
        # Processors count in ticks: right after the last look a tick of theirs is more than all there was.
        return min(1.0, max(0.0, busy - own) / (wall * (os.cpu_count() or 1))) if wall > 0 else 0.0


def _busy() -> tuple[float, float, float] | None:
    """Wall seconds, busy seconds of all processors, and those of this process; Linux only."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(value) for value in file.readline().split()[1:9]]
        user, nice, system, _idle, _wait, irq, softirq, steal = fields
    except (OSError, ValueError):
        return None
    own = os.times()
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return time.monotonic(), busy, own.user + own.system


class Patience:
    """Seconds that a whole measurement may spend on waiting for others to stop."""

    def __init__(self, seconds: float = PATIENCE_S) -> None:
        self.seconds = self.left = seconds

    def wait(self, device: Device) -> bool:
        """Whether the processors are left alone; returns at once where they are, or where no patience is left."""
        if device.is_gpu:
            return True
        others = Others(device)
        while True:
            time.sleep(GLANCE_S)
            if others.share() <= OTHERS:
                return True
            self.left -= GLANCE_S
            if self.left <= 0:
                return False


@dataclass(frozen=True)
class Quiet:
    """How the device was found."""

    bandwidth_bytes_per_s: float
    quiet: bool


def moved(*bandwidths: float) -> bool:
    """Whether some bandwidths differ by more than the device does by itself.

    >>> moved(25e9, 27e9, 24e9), moved(25e9, 31e9)
    (False, True)
    """
    return max(bandwidths) > MOVED * min(bandwidths)


def wait_until_quiet(device: Device, bandwidth: Callable[[], float], patience: Patience) -> Quiet:
    """Read until two readings agree and nobody else works, while patience lasts.

    Args:
        bandwidth: measures once, in bytes per second.

    Raises:
        KvcalcError: not once did two readings in a row agree.
    """
    steady: float | None = None
    while True:
        others = Others(device)
        first, second = bandwidth(), bandwidth()
        alone = others.share() <= OTHERS
        if not moved(first, second):
            steady = max(first, second, steady or 0.0)
            if alone:
                return Quiet(steady, True)
        if patience.left <= 0:
            break
        patience.left -= GLANCE_S
        patience.wait(device)
    if steady is None:
        raise KvcalcError(
            f"no quiet moment in {patience.seconds:.0f} s: the read bandwidth moved by more than 20 % between readings",
            hint="stop what else runs on the device, or wait longer with --patience 10min",
        )
    return Quiet(steady, False)
