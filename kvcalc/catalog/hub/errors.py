"""What a fetch from the Hub can come up with, as one clear error each: what happened, and what to do."""

from typing import Any

from kvcalc.errors import KvcalcError

LISTING = "`kvcalc models` lists the models that need no network"


def explained(error: Exception, errors: Any, name: str, revision: str | None, what: str, page: str) -> KvcalcError:
    """The KvcalcError for an exception of huggingface_hub, of its HTTP client, or of the socket.

    Args:
        errors: the module `huggingface_hub.errors`.
        name, revision: of the repository that was asked.
        what: what was asked for: "config.json".
        page: the repository's address, to look at.
    """
    if isinstance(error, KvcalcError):
        return error
    status = status_of(error)
    found = _refusal(error, errors, name, revision, what, page)
    return found or (_status(status, name, what) if status is not None else _transport(error, errors, name, what, page))


def status_of(error: Exception) -> int | None:
    """The status that the Hub answered with; None where it did not answer."""
    return getattr(getattr(error, "response", None), "status_code", None)


def _refusal(
    error: Exception, errors: Any, name: str, revision: str | None, what: str, page: str
) -> KvcalcError | None:
    """The Hub knows why."""
    if isinstance(error, errors.GatedRepoError):
        return KvcalcError(
            f"{name} is gated, and the Hub gives it only to users who were granted access",
            hint=f"ask for access at {page}, then set HF_TOKEN or run `hf auth login`",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return KvcalcError(f"{name} has no revision {revision or 'main'!r}", hint=f"see {page}/tree/main")
    if isinstance(error, errors.RepositoryNotFoundError):
        return KvcalcError(
            f"no model {name} on {page.removesuffix('/' + name)}, or it is private",
            hint=f"check the spelling; a private or gated one needs HF_TOKEN; {LISTING}",
        )
    if isinstance(error, errors.EntryNotFoundError) and status_of(error) == 404:
        return KvcalcError(f"{name} has no {what}", hint=f"see {page}/tree/main")
    if isinstance(error, errors.HFValidationError):
        return KvcalcError(f"not a Hub id: {name[:100]!r}", hint="it has the form owner/name")
    return None


def _status(status: int, name: str, what: str) -> KvcalcError:
    """The Hub answered with a status alone."""
    if status == 429:
        return KvcalcError(
            f"the Hub limits the rate of requests: {what} of {name} was refused",
            hint="wait a minute, or set HF_TOKEN: known users may ask more often",
        )
    if status in (401, 403):
        return KvcalcError(
            f"the Hub refused {what} of {name} ({status})",
            hint="is it private or gated? then set HF_TOKEN, of a user who may read it",
        )
    if status == 404:
        return KvcalcError(f"the Hub has no {what} of {name} (404)", hint=f"check the spelling; {LISTING}")
    return KvcalcError(f"the Hub answered {status} for {what} of {name}", hint=f"try again later; {LISTING}")


def _transport(error: Exception, errors: Any, name: str, what: str, page: str) -> KvcalcError:
    """No answer, or half of one. The HTTP client differs by version of the library: its errors are told by name."""
    kind = type(error).__name__
    if isinstance(error, TimeoutError) or "Timeout" in kind:
        return KvcalcError(
            f"{page} did not answer in time for {what}",
            hint=f"try again, or raise HF_HUB_DOWNLOAD_TIMEOUT; {LISTING}",
        )
    if isinstance(error, OSError) and error.filename:  # of a file, and no socket
        return KvcalcError(
            f"{what} of {name} cannot be kept in the Hub's cache, {error.filename!s:.200}: {error.strerror or kind}",
            hint="HF_HOME names another folder; is the home read-only or full?",
        )
    if isinstance(error, errors.FileMetadataError):
        return KvcalcError(
            f"{page} does not answer like a Hub", hint="is HF_ENDPOINT set to one? is a proxy in between?"
        )
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return KvcalcError(f"{what} of {name} is not in the cache, and the Hub cannot be reached", hint=LISTING)
    if "Protocol" in kind or "Chunked" in kind or "Consistency" in str(error):
        return KvcalcError(f"the connection was cut off in the middle of {what} of {name}", hint="try again")
    return KvcalcError(f"cannot reach {page} for {what} ({kind})", hint=f"check the network; {LISTING}")
