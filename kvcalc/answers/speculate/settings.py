"""What `speculate` takes beside the flags of every command."""

from typing import Annotated

from kvcalc.specs.base import Frozen
from kvcalc.specs.constraints import Checked, FromText, Within
from kvcalc.specs.deployment import count, number, share
from kvcalc.units import parse_count

MOST_WIDTHS = 16


def _few(widths: tuple[int, ...]) -> tuple[int, ...]:
    if len(widths) > MOST_WIDTHS:
        raise ValueError(f"{len(widths)} widths are more than {MOST_WIDTHS}")
    return widths


Rate = Annotated[float, Within(ge=0, le=1)]
Width = Annotated[int, Within(ge=1, le=1024)]


class SpeculateSettings(Frozen):
    """What `speculate` takes beside the flags of every command."""

    draft: str | None = None
    draft_cost: Annotated[float | None, Within(ge=0, le=1000), number("--draft-cost", "0.15")] = None
    draft_quantization: str | None = None
    gamma: Annotated[int | None, Within(ge=1, le=64), count("--gamma")] = None
    acceptance: Annotated[tuple[Rate, ...], share("--acceptance")] = ()
    decay: Annotated[float, Within(gt=0, le=1), share("--decay")] = 1.0
    accepted_length: tuple[str, ...] = ()  # "3.1", or "4:3.1": measured with 4 draft tokens
    target_probs: str | None = None
    draft_probs: str | None = None
    tree_width: Annotated[tuple[Width, ...], Checked(_few), FromText(parse_count, "--tree-width")] = ()
    tree: bool = False  # the method's own
    tree_nodes: Annotated[int | None, Within(ge=1, le=4096), count("--tree-nodes")] = None
