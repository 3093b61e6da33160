"""How long a step takes: repeated windows, their median, how far they spread, and whether anybody disturbed them."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvcalc.executor.device import Device
from kvcalc.executor.quiet import OTHERS, Others, Patience

Step = Callable[[], object]
WINDOW_S = 0.02  # of repeated calls: long against the clock's own error
WINDOWS = 7
LEAST_WINDOWS = 4
TRY_S = 6.0  # of one try, unless the least windows take longer
SLOW_S = 1.0  # a call that takes this long stands for a window, and warms nothing up
FEW_WINDOWS = 2  # of a try that has taken three times as long: slow steps, or a machine that others use
STEADY = {"cpu": 1.2, "cuda": 1.03}  # 90th over 10th percentile of windows that nothing disturbed
TRIES = 3


@dataclass(frozen=True)
class Sample:
    """Seconds of one call, window by window."""

    times: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median."""
        return statistics.median(self.times)

    @property
    def tenths(self) -> tuple[float, float]:
        """The tenth and the ninetieth percentile."""
        if len(self.times) == 1:
            return self.times[0], self.times[0]
        found = statistics.quantiles(self.times, n=10, method="inclusive")
        return found[0], found[-1]

    @property
    def spread(self) -> float:
        """How many times the tenth percentile the ninetieth is."""
        low, high = self.tenths
        return high / low

    def per(self, calls: int) -> "Sample":
        """Of one of `calls` equal parts."""
        return Sample(tuple(time / calls for time in self.times))

    def less(self, part: "Sample") -> "Difference":
        """What is left without a part that was measured in the same windows."""
        apart = Sample(tuple(a - b for a, b in zip(self.times, part.times, strict=True)))
        low, high = apart.tenths
        return Difference(value=apart.value, noise=(high - low) / 2, whole=self)


@dataclass(frozen=True)
class Difference:
    """Seconds by which one step is longer than another: the median over windows, and how far windows disagree."""

    value: float
    noise: float
    whole: Sample

    @property
    def resolved(self) -> bool:
        """Whether it is more than noise."""
        return self.value > self.noise

    @property
    def positive(self) -> float:
        """The value, or a thousandth of the whole where noise has swallowed it."""
        return max(self.value, self.whole.value / 1000)


class Bench:
    """A device to measure on, and the patience to wait for it to be left alone."""

    def __init__(self, device: Device, patience: Patience) -> None:
        self.device = device
        self.patience = patience
        self.disturbed = 0  # measurements during which others kept working, whatever patience there was

    def measure(self, step: Step, windows: int = WINDOWS) -> Sample:
        """The time of one call, over windows of repeated calls."""
        return self.together({"": step}, windows)[""]

    def together(self, steps: Mapping[str, Step], windows: int = WINDOWS, tries: int = TRIES) -> dict[str, Sample]:
        """Several steps in turn, so that a slow moment hits all of them; of a few tries the least disturbed.

        Tries after the first take from the patience, so that a noisy device cannot hold a measurement up for long.
        """
        calls = {name: self._calls(step) for name, step in steps.items()}
        best: dict[str, Sample] = {}
        least, taken = float("inf"), 0.0
        for attempt in range(tries):
            if attempt and self.patience.left <= 0:
                break
            start = time.monotonic()
            self.wait()
            others = Others(self.device)
            found = self._windows(steps, calls, windows)
            share = others.share()
            disturbed = worst(found) * (1 + share)
            if disturbed < least:
                best, least, taken = found, disturbed, share
            if worst(found) <= STEADY[self.device.kind] and share <= OTHERS:
                break
            self.patience.left -= time.monotonic() - start
        self.disturbed += taken > OTHERS
        return best

    def glance(self, step: Step) -> Sample:
        """The same at once, in one try: what the device does now."""
        calls = self._calls(step)
        return self._windows({"": step}, {"": calls}, WINDOWS)[""]

    def once(self, step: Step) -> float:
        """Seconds of one call; the first is a warm-up, unless it takes so long that a second would tell no more."""
        first = self._elapsed(step, 1)
        return first if first > SLOW_S else self._elapsed(step, 1)

    def wait(self) -> None:
        """Until other processes leave the processors alone, while patience lasts."""
        self.patience.wait(self.device)

    def _windows(self, steps: Mapping[str, Step], calls: Mapping[str, int], windows: int) -> dict[str, Sample]:
        """One try. Steps of seconds get fewer windows.

        Where several take turns, each is called once before it is timed: a step that follows another finds that one's
        data in the caches, while in a loop of its own it finds what it has left there itself. And every other round
        goes backwards, so that none always follows the same one.
        """
        names, slow = list(steps), set[str]()
        times: dict[str, list[float]] = {name: [] for name in names}
        end = time.monotonic() + TRY_S
        for window in range(windows):
            for name in names if window % 2 == 0 else reversed(names):
                if len(steps) > 1 and name not in slow:
                    steps[name]()
                times[name].append(self._elapsed(steps[name], calls[name]))
                if times[name][-1] > SLOW_S:
                    slow.add(name)
            late = time.monotonic() - end
            if (window + 1 >= LEAST_WINDOWS and late > 0) or (window + 1 >= FEW_WINDOWS and late > 2 * TRY_S):
                break
        return {name: Sample(tuple(values)) for name, values in times.items()}

    def _calls(self, step: Step) -> int:
        """Calls that fill a window."""
        return max(1, round(WINDOW_S / max(self.once(step), 1e-9)))

    def _elapsed(self, step: Step, calls: int) -> float:
        """Seconds of one of `calls` calls in a row, waited for on the device."""
        if self.device.is_gpu:
            import torch

            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(calls):
                step()
            stop.record()
            stop.synchronize()
            return float(start.elapsed_time(stop)) / 1e3 / calls
        before = time.perf_counter()
        for _ in range(calls):
            step()
        return (time.perf_counter() - before) / calls


def worst(samples: Mapping[str, Sample]) -> float:
    """The largest spread."""
    return max(sample.spread for sample in samples.values())
