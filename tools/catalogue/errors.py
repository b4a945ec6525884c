"""What can go wrong with a write to the catalogue, in the operator's words. Entry points (pages, API, admin, commands) show the
message as it is; the class decides the status.
"""

from __future__ import annotations

from django.db import IntegrityError, OperationalError

from portal.tenancy.rights import Rights
from tools.models import Tool


class CatalogueError(Exception):
    """A write that was refused; nothing was stored."""


class StaleVersion(CatalogueError):
    """Somebody else saved the tool in the meantime. `current` is the row as it is now."""

    def __init__(self, current: Tool) -> None:
        super().__init__(
            f"{current.updated_by or 'Somebody'} saved this tool while you were editing it "
            f"(version {current.version}). Nothing of yours was stored yet."
        )
        self.current = current


class StaleSettings(CatalogueError):
    """Somebody else changed the settings of a source or a server in the meantime."""

    def __init__(self) -> None:
        super().__init__(
            "Somebody changed this while you were editing it. Your changes were not saved; open the page again."
        )


class NameTaken(CatalogueError):
    """A unique name is in use."""


class ManagedBySource(CatalogueError):
    """The row follows its source, which would undo the write."""


class Invalid(CatalogueError):
    """A value is not allowed. `errors` maps field names to sentences."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__("; ".join(f"{field}: {' '.join(texts)}" for field, texts in errors.items()))
        self.errors = errors


class BeyondRights(CatalogueError):
    """The write or the reading reaches tools that the caller may not see. One sentence for all of them, so that it does not tell
    which tools there are."""

    def __init__(self, rights: Rights) -> None:
        bound = (
            ""
            if rights.sees_all_sensitivities
            else f" It is bound to tools that are {rights.max_sensitivity} at most."
        )
        super().__init__(
            f"This reaches tools that {rights.actor or 'the caller'} may not see or write, so nothing was done.{bound}"
        )


class StalePlan(CatalogueError):
    """The catalogue is no longer what a plan was made of. `keys` are of the endpoints that differ."""

    def __init__(self, keys: list[str]) -> None:
        shown = ", ".join(keys[:3]) + (f" and {len(keys) - 3:,} more" if len(keys) > 3 else "")
        super().__init__(
            f"The catalogue has changed since this plan was made ({shown}), so nothing was applied. Plan the sync again."
        )
        self.keys = keys


class RemovalsNeedConfirmation(CatalogueError):
    """A sync would remove more of a source's tools than it may without a confirmation."""

    def __init__(self, removed: int, active: int) -> None:
        super().__init__(
            f"{removed:,} of {active:,} tools would vanish ({removed / active:.0%}), so nothing was applied. If the source has "
            "really shrunk, confirm the removals."
        )
        self.removed, self.active = removed, active


class WrongSyncState(CatalogueError):
    """The sync is over, so it can be neither applied nor discarded."""


class SyncFailed(CatalogueError):
    """A source could not be read; its tools stay as they are."""


class Busy(CatalogueError):
    """Another write holds the rows."""

    def __init__(self) -> None:
        super().__init__("Another write, such as a sync, is changing this right now. Try again in a moment.")


# PostgreSQL's codes for: a lock was not to be had in time, a deadlock, a statement was cut off.
_BUSY = {"55P03", "40P01", "57014"}
# The one place where a constraint's name becomes a sentence.
_SENTENCES: dict[str, tuple[type[CatalogueError], str]] = {
    "tool_id_once": (NameTaken, "A tool with this tool_id exists in this namespace (perhaps inactive)."),
    "source_slug_once": (NameTaken, "A source with this name exists."),
    "mcp_server_slug_once": (NameTaken, "An MCP server with this name exists."),
}


def translated(error: IntegrityError | OperationalError) -> CatalogueError | None:
    """The domain's error for a violated constraint or a lock that was not to be had; None for anything else."""
    if getattr(error.__cause__, "sqlstate", None) in _BUSY:
        return Busy()
    diagnostic = getattr(error.__cause__, "diag", None)
    found = _SENTENCES.get(getattr(diagnostic, "constraint_name", None) or "")
    if found is None:
        return None
    kind, sentence = found
    return kind(sentence)
