"""The one exception family, and the exit codes a script can rely on."""

EXIT_OK = 0
EXIT_LIMIT = 1  # a limit is broken: check, run --tolerance, size --fail-if-unfit
EXIT_USAGE = 2  # bad input or environment
EXIT_FAULT = 70  # a fault of kvcalc's own
EXIT_INTERRUPTED = 130

LONGEST_MESSAGE = 1000  # characters: what it quotes may be of any length


def said_by(error: Exception) -> str:
    """What the operating system says of a path, without its number and the path again.

    >>> said_by(FileNotFoundError(2, "No such file or directory", "budget.toml"))
    'No such file or directory'
    """
    return getattr(error, "strerror", None) or str(error)


class KvcalcError(Exception):
    """Bad input or environment: what is wrong and where, and what to do about it.

    The command line prints it as one `error:` and one `hint:` line.

    >>> str(KvcalcError("unknown GPU 'h10O'", hint="did you mean h100-sxm?"))
    "unknown GPU 'h10O'"
    """

    def __init__(self, message: str, hint: str) -> None:
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[: LONGEST_MESSAGE - 200]} … {message[-190:]}"
        super().__init__(message)
        self.message = message
        self.hint = hint
