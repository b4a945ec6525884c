"""Records which tool was selected of a search's results (SRC-9). Services of the current tenant, in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from metrics.models import LoggedSearch
from metrics.search_log import issued_within
from portal.tenancy.context import current_tenant

PENDING_SECONDS = 60
"""How long after a search its row may still be missing from the log: the queue's flush, and a database that is slow to take it."""


class UnknownSearch(Exception):
    """There is no such search in the log of the tenant. The message is for the caller."""


class NotReturned(Exception):
    """The search did not return the tool. The message is for the caller."""

    def __init__(self) -> None:
        super().__init__("The search did not return this tool.")


@dataclass(frozen=True, slots=True)
class Selection:
    """`is_pending`: the log has not written the search yet, and so nobody has checked that the search returned the tool."""

    search_id: UUID
    tool_id: UUID
    is_pending: bool


def find_search(search_id: str) -> UUID:
    """The id of a search of the current tenant: one in the log, or one so young that the log may not have written it yet, which
    its id proves. Raises UnknownSearch."""
    try:
        found = UUID(search_id)
    except ValueError:
        raise UnknownSearch(_unknown(search_id)) from None
    is_young = settings.SEARCH_LOG != "off" and issued_within(PENDING_SECONDS, current_tenant(), found)
    if not is_young and not LoggedSearch.objects.filter(pk=found).exclude(mode="").exists():
        raise UnknownSearch(_unknown(search_id))
    return found


def select(search_id: UUID, tool_id: UUID) -> Selection:
    """Records that `tool_id` was selected; the same again changes nothing, and another tool takes the place of the one before.

    Where the log has not written the search yet, the selection makes its row, and the log fills it (search_log._WRITE): the
    selection then counts if the search returned the tool. Raises NotReturned. `search_id` comes from `find_search`.
    """
    with transaction.atomic():
        LoggedSearch.objects.bulk_create([LoggedSearch(pk=search_id)], ignore_conflicts=True)
        row = LoggedSearch.objects.select_for_update(no_key=True).get(pk=search_id)
        if row.is_written and row.rank_of(tool_id) is None:
            raise NotReturned
        if row.selected_tool != tool_id:
            LoggedSearch.objects.filter(pk=search_id).update(
                selected_tool=tool_id, selected_rank=row.rank_of(tool_id), selected_at=Now()
            )
    return Selection(search_id, tool_id, is_pending=not row.is_written)


def _unknown(search_id: str) -> str:
    return f"There is no search {search_id!r} in the log."
