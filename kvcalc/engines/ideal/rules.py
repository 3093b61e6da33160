"""`ideal` is the lessons: weights and cache, nothing else."""

from typing import ClassVar

from kvcalc.engines.contract import Rules


class Ideal(Rules):
    TITLE = "ideal"
    TIMED = False
    STARTS_BEYOND = True
    SHARES_SEQUENCES = True
    QUANTIZATIONS = ("scheme", "gguf")
    MEASURED_VENDORS = ()
    SWITCHES: ClassVar = dict.fromkeys(
        ("watermark", "prefill_schedule_interval", "scheduling_policy", "long_prefill_token_threshold")
    )
    ADVISED = ("quantization", "tensor_parallel_size")

    def check_version(self, text: str) -> None:
        """Mathematics has no versions: any text will do."""


RULES = Ideal()
