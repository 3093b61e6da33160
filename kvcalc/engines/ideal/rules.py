"""`ideal` is the lessons: weights and cache, nothing else."""

from kvcalc.engines.contract import Rules


class Ideal(Rules):
    TITLE = "ideal"
    TIMED = False
    STARTS_BEYOND = True
    SHARES_SEQUENCES = True
    MEASURED_VENDORS = ()
    ADVISED = ("quantization", "tensor_parallel_size")

    def check_version(self, text: str) -> None:
        """Mathematics has no versions: any text will do."""


RULES = Ideal()
