"""What is otherwise than in an answer that was kept."""

from typing import Literal

from kvcalc.specs.base import Frozen

Mark = Literal["~", "+", "-"]  # otherwise, new, gone


class Change(Frozen):
    """One figure, or a whole deployment or row where `figure` is none."""

    mark: Mark
    of: str  # the deployment, or what varies
    figure: str | None = None
    before: float | bool | str | None = None
    after: float | bool | str | None = None
    passed_before: bool | None = None  # of a limit
    passed_after: bool | None = None
    line: int | None = None  # of the budget file

    @property
    def ratio(self) -> float | None:
        """Of two numbers, by how much the second is above the first: 0.1 is 10 %."""
        numbers = [one for one in (self.before, self.after) if isinstance(one, int | float) and one is not bool(one)]
        return numbers[1] / numbers[0] - 1 if len(numbers) == 2 and numbers[0] else None

    @property
    def worse(self) -> bool:
        """Whether a limit broke, or a new one is broken from the start."""
        return self.passed_after is False and self.passed_before is not False


class Baseline(Frozen):
    """The file that was kept, and what has changed since."""

    file: str
    changes: tuple[Change, ...]
