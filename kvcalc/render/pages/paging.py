"""What paging costs and gives, as `size` and `step` show it."""

from kvcalc.render.page import Facts
from kvcalc.results.paging import Paging
from kvcalc.units import format_count


def paging_facts(one: Paging) -> Facts:
    """The slower kernel against the larger batch."""
    kernel = f"{one.kernel_slowdown_low:.0%} to {one.kernel_slowdown_high:.0%}"
    step = " to ".join(dict.fromkeys(f"{share:.0%}" for share in (one.step_slowdown_low, one.step_slowdown_high)))
    gain = "–" if one.gain is None else f"{one.gain:.2f} ×"
    reserved = f"sequences, {format_count(one.reserved_tokens)} tokens reserved for each"
    return Facts(
        title="What paging costs and gives",
        rows=(
            ("its kernel", kernel, "slower attention, as measured in 2023"),
            ("the whole step", step, "slower"),
            ("contiguous", format_count(one.contiguous_batch), reserved),
            ("paged", format_count(one.paged_batch), "sequences"),
            (
                "tokens/s",
                gain,
                f"{format_count(one.paged_tokens_per_s)} paged, {format_count(one.contiguous_tokens_per_s)} contiguous",
            ),
        ),
    )
