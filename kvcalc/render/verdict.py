"""The three verdicts in words."""

FIT_WORDS = {"fits": "yes", "may_fit": "maybe", "does_not_fit": "no"}  # in a column


def verdict_words(fit: str, reason: str | None) -> str:
    """For the top of a page.

    >>> verdict_words("may_fit", "the pool lies between 1 and 2 GiB")
    'may fit: the pool lies between 1 and 2 GiB'
    """
    said = fit.replace("_", " ")
    return said if reason is None else f"{said}: {reason}"


def is_good(fit: str) -> bool | None:
    """Green, red, or neither."""
    return {"fits": True, "may_fit": None, "does_not_fit": False}[fit]
