"""Kernel sums of a setting's passes, and how they stand among the parts of a prepared task."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from times.setting import Setting

from kvcalc.counting.work import Step
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.estimate import KernelSums
from kvcalc.timing.passes import Pass

Parts = Mapping[str, Any]


def decode_sums(setting: Setting, profile: Profile, batch: float, context: float | None = None) -> KernelSums:
    step = Step(decode=batch, context=setting.context if context is None else context)
    return Pass(setting.replica(profile), step).sums


def prefill_sums(setting: Setting, profile: Profile, prompts: float = 1) -> KernelSums:
    return Pass(setting.replica(profile), Step(prompts=prompts, tokens=setting.input_len)).sums


def named(name: str, sums: KernelSums) -> dict[str, Any]:
    """Sums as parts of a task."""
    return {f"{name}.{field.name}": getattr(sums, field.name) for field in fields(KernelSums)}


def sums_of(name: str, parts: Parts) -> KernelSums:
    """Sums from the parts of a task."""
    return KernelSums(**{field.name: parts[f"{name}.{field.name}"] for field in fields(KernelSums)})
