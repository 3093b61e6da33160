"""What is said beside the answer, on standard error: one line each, whatever it quotes."""

import sys
from contextlib import suppress


def say(kind: str, text: str) -> None:
    """`warning: …`, `error: …` or `hint: …`. Where standard error is closed or full, nobody listens."""
    if sys.stderr is None:  # print would take standard output
        return
    with suppress(OSError, ValueError):
        print(f"{kind}: {one_line(text)}", file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Without line breaks and runs of blanks, whatever a message quotes."""
    from kvcalc.render.printable import printable  # of what help never needs

    return printable(" ".join(text.split()))
