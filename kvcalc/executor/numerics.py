"""What a config says of the arithmetic besides sizes: the norm's epsilon and how rotary angles grow with position."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvcalc.errors import KvcalcError
from kvcalc.executor.glue import Rotary

if TYPE_CHECKING:
    import torch

# Decoders whose arithmetic is this executor's; others share the tensors' names and not the meaning (Gemma's norm).
FAMILIES = {"llama", "mistral", "ministral", "qwen2", "qwen3"}


@dataclass(frozen=True)
class Numerics:
    """Defaults are for noise, where only the cost counts."""

    eps: float = 1e-5
    rope_theta: float = 10_000.0
    rope_type: str = "default"  # default | linear | llama3
    factor: float = 1.0
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    original_context: int = 8192


def numerics_of(config: dict[str, Any]) -> Numerics:
    """From a config.json of a family whose arithmetic is known.

    Raises:
        KvcalcError: another family, activation or rotary embedding.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise KvcalcError(
            f"--weights: the arithmetic of {str(family)[:40]!r} is not known here", hint=f"one of {known}"
        )
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        raise KvcalcError(f"--weights: hidden_act {config['hidden_act']!r}", hint="the executor computes silu")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    share = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    if kind not in ("default", "linear", "llama3") or share != 1.0:
        raise KvcalcError(
            f"--weights: rotary embedding {kind!r} of share {share}", hint="default, linear and llama3 run"
        )
    return Numerics(
        eps=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
        rope_type=kind,
        factor=float(rope.get("factor", 1.0)),
        low_frequency=float(rope.get("low_freq_factor", 1.0)),
        high_frequency=float(rope.get("high_freq_factor", 4.0)),
        original_context=int(rope.get("original_max_position_embeddings", 8192)),
    )


def frequencies(numerics: Numerics, head_dim: int) -> list[float]:
    """Radians a position for each pair of elements.

    Source: Su et al. 2021 (RoFormer); `llama3` as in Meta's reference code: slow pairs are slowed further by `factor`,
    fast ones left, those between blended.
    """
    found = []
    for pair in range(head_dim // 2):
        angle = numerics.rope_theta ** (-2 * pair / head_dim)
        if numerics.rope_type == "linear":
            angle /= numerics.factor
        elif numerics.rope_type == "llama3":
            turns = numerics.original_context * angle / (2 * math.pi)
            low, high = numerics.low_frequency, numerics.high_frequency
            kept = min(1.0, max(0.0, (turns - low) / (high - low)))
            angle *= kept + (1 - kept) / numerics.factor
        found.append(angle)
    return found


def rotary(numerics: Numerics, head_dim: int, positions: int, dtype: "torch.dtype", device: "torch.device") -> Rotary:
    """Tables for that many positions, computed in fp32 as the reference implementations do."""
    import torch

    per_position = torch.tensor(frequencies(numerics, head_dim), dtype=torch.float32)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), per_position)
    cos, sin = (table.to(device=device, dtype=dtype) for table in (angles.cos(), angles.sin()))
    return Rotary(cos, sin, numerics.eps)
