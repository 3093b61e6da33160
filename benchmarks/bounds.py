"""A bound is a bound: over all cards and GPUs no estimate is below it, nor its low end.

python benchmarks/bounds.py [--engine NAME] [--engine-version V] [--quantization SCHEME] [--every N] [--json]
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question, placed, unplaced
from kvcalc.catalog.cards import card_names
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.catalog.spellings import gpu_names
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.specs.gpu import GpuSpec
from kvcalc.timing.passes import Pass

TIMED = ("vllm", "sglang", "trtllm", "llamacpp")
LAYOUTS: tuple[dict[str, Any], ...] = ({}, {"tensor_parallel_size": 8})
BATCHES = (1, 4, 16, 64, 256, 1024)
CONTEXTS = (512, 8192, 65_536)
PROMPTS = (1, 128, 2048, 8192)
NEAR = 1 + 1e-9  # of what floating point leaves


class Broken(NamedTuple):
    """An estimate whose low end is below its bound."""

    engine: str
    model: str
    gpu: str
    layout: str
    step: str
    bound_s: float
    low_s: float


class Swept(NamedTuple):
    """What a sweep came to."""

    points: int
    refused: int  # deployments that cannot be asked: a layout that does not divide, a dtype without a peak
    broken: tuple[Broken, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=TIMED, action="append", help="default: each of them")
    parser.add_argument("--engine-version", help="default: each engine's newest")
    parser.add_argument("--quantization", help="of the weights; default: as stored")
    parser.add_argument("--every", type=int, default=1, help="of the pairs of a card and a GPU, each so-manieth")
    parser.add_argument("--json", action="store_true", help="the whole result on stdout")
    flags = parser.parse_args()
    said = {name: value for name in ("engine_version", "quantization") if (value := getattr(flags, name)) is not None}
    found = {engine: swept(engine, flags.every, said) for engine in flags.engine or TIMED}
    if flags.json:
        json.dump({name: one._asdict() for name, one in found.items()}, sys.stdout, indent=1)
        print()
    else:
        for engine, one in found.items():
            show(engine, one)
    return int(any(one.broken for one in found.values()))


def show(engine: str, found: Swept) -> None:
    print(f"{engine}: {found.points:,} points, {len(found.broken):,} broken; {found.refused:,} deployments refused")
    for (model, gpu), count in Counter((one.model, one.gpu) for one in found.broken).most_common(20):
        first = next(one for one in found.broken if (one.model, one.gpu) == (model, gpu))
        print(f"  {count:4d}  {model} on {gpu}: {first.layout} {first.step}: {first.bound_s:.3e} > {first.low_s:.3e}")


def swept(engine: str, every: int = 1, said: Mapping[str, str] = MappingProxyType({})) -> Swept:
    """Decode steps and prompts of each card on each GPU, alone and over eight.

    Args:
        engine: whose kernels and profile.
        every: of the pairs of a card and a GPU, each so-manieth.
        said: other fields of the deployments.
    """
    points = refused = number = 0
    broken: list[Broken] = []
    gpus = [load_gpu(name) for name in gpu_names() if _has(name)]
    for layout in LAYOUTS:
        for card in card_names():
            chosen = [gpu for i, gpu in enumerate(gpus) if (number + i) % every == 0]
            number += len(gpus)
            question = _question(card, engine, {**said, **layout}) if chosen else None
            for gpu in chosen:
                deployed = _deployed(question, gpu)
                if deployed is None:
                    refused += 1
                    continue
                for step in steps():
                    points += 1
                    broken += _broken(deployed, step)
    return Swept(points, refused, tuple(broken))


def steps() -> Iterator[Step]:
    """A decode step of each batch at each context, and a prompt of each length."""
    for batch in BATCHES:
        for context in CONTEXTS:
            yield Step(decode=batch, context=context)
    for tokens in PROMPTS:
        yield Step(prompts=1, tokens=tokens)


def _question(card: str, engine: str, layout: dict[str, Any]) -> Question | None:
    try:
        return unplaced(card, {"engine": engine, **layout}, load=load_model)
    except KvcalcError:
        return None


def _deployed(question: Question | None, gpu: GpuSpec) -> Deployed | None:
    if question is None:
        return None
    try:
        found = Deployed(placed(question, gpu))
        assert Pass(found.replica, Step(decode=1, context=1)).estimate is not None
    except KvcalcError:
        return None
    return found


def _broken(deployed: Deployed, step: Step) -> Iterator[Broken]:
    one = Pass(deployed.replica, step)
    assert one.estimate is not None
    bound, low = float(one.bound_s), float(one.estimate.low)
    if bound > NEAR * low:
        layout = deployed.deployment.layout
        said = f"{step.decode} × {step.context}" if step.decode else f"a prompt of {step.tokens}"
        yield Broken(deployed.deployment.engine, deployed.model.name, deployed.gpu.name,
                     f"TP{layout.tensor_parallel_size}", said, bound, low)  # fmt: skip


def _has(name: str) -> bool:
    return load_gpu(name).instance is None


if __name__ == "__main__":
    sys.exit(main())
