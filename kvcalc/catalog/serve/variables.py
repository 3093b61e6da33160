"""Shell variables in a word: those that the text itself sets are put in, the rest stay and are named."""

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$\{(?P<braced>[A-Za-z_]\w*)(?::?[-=](?P<default>[^{}]*))?\}|\$\(?(?P<plain>[A-Za-z_]\w*)\)?")

_OUTPUT = re.compile(r"`[^`]*`|\$\((?![A-Za-z_]\w*\)).*\)")


def put_in(word: str, values: Mapping[str, str]) -> str:
    """The word with the variables that have a value, or a default of their own, replaced.

    Kubernetes' `$(NAME)` counts as a variable too.

    >>> put_in("--tp=${TP:-8}", {}), put_in("$TP", {"TP": "4"}), put_in("$PORT", {})
    ('--tp=8', '4', '$PORT')
    """

    def value(match: re.Match[str]) -> str:
        name = match["braced"] or match["plain"]
        found = values.get(name, match["default"])
        return match[0] if found is None or found.startswith("$") else found

    return _VARIABLE.sub(value, word)


def unresolved(word: str) -> list[str]:
    """The variables that are left, the placeholders and the outputs of commands: `$TP`, `<your-model>`, `$(nproc)`.

    >>> unresolved("/models/$NAME/${SIZE}"), unresolved("<tp>"), unresolved("8192")
    (['$NAME', '$SIZE'], ['<tp>'], [])
    """
    if re.fullmatch(r"<[^<>]{1,60}>", word):
        return [word]
    if _OUTPUT.search(word):
        return [match[0] for match in _OUTPUT.finditer(word)]
    return [f"${match['braced'] or match['plain']}" for match in _VARIABLE.finditer(word)]
