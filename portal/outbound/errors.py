"""Why nothing could be fetched; every message is a sentence for the operator. Callers turn the class into a status."""

from __future__ import annotations


class FetchError(Exception):
    """The server gave no usable answer."""


class InvalidTarget(FetchError):
    """The URL, header or command is not one that may be called; no connection was opened."""


class FetchTimeout(FetchError):
    """The server was reached and did not answer in time."""


def causes_of(error: BaseException) -> list[BaseException]:
    """An error, those that a group of it holds, and what each was made of."""
    found = [error]
    if isinstance(error, BaseExceptionGroup):
        return found + [cause for inner in error.exceptions for cause in causes_of(inner)]
    cause = error.__cause__ or error.__context__
    return found + causes_of(cause) if cause is not None else found


# One sentence for a forbidden, a closed and a filtered address: the difference would map a private network.
UNREACHABLE = (
    "The address cannot be reached. Only public addresses over http or https are allowed, and the internal servers that the "
    "installation names in IMPORT_ALLOWED_HOSTS."
)
