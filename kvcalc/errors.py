"""The one exception family, and the exit codes a script can rely on."""

EXIT_OK = 0
EXIT_LIMIT = 1  # a limit is broken: check, run --tolerance, size --fail-if-unfit
EXIT_USAGE = 2  # bad input or environment
EXIT_FAULT = 70  # a fault of kvcalc's own
EXIT_INTERRUPTED = 130


class KvcalcError(Exception):
    """Bad input or environment: what is wrong and where, and what to do about it.

    The command line prints it as one `error:` and one `hint:` line.

    >>> str(KvcalcError("unknown GPU 'h10O'", hint="did you mean h100-sxm?"))
    "unknown GPU 'h10O'"
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
