"""Names that miss: what did the user mean?"""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], listing: str) -> str:
    """A hint for an unknown name; `listing` is what to run to see them all.

    >>> did_you_mean("lama-3-8b", ["llama-3-8b", "qwen3-8b"], "`kvcalc models` lists them")
    'did you mean llama-3-8b? `kvcalc models` lists them'
    """
    from difflib import get_close_matches

    close = get_close_matches(name[:100].lower(), list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}? {listing}" if close else listing
