"""Invitations: an admin of a tenant makes one for a user name, and the membership begins when its person accepts it.

So nobody is put into a tenant unasked, and nobody learns from an invitation whether a user name exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pghistory
from django.contrib.auth.models import User
from django.db import connection

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Invitation, Membership


@dataclass(frozen=True, slots=True)
class Invited:
    """An invitation as its person sees it."""

    tenant_id: UUID
    slug: str
    name: str
    role: str
    invited_by: str


def invitations_of(username: str) -> list[Invited]:
    """The invitations of that name in all tenants, by slug."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tenant_id, slug, name, role, invited_by FROM portal_invitations(%s)", [username]
        )
        return [Invited(*row) for row in cursor.fetchall()]


def answer_invitation(user: User, tenant_id: UUID, *, accepted: bool) -> Invited | None:
    """Ends the person's own invitation to that tenant, with a membership if it was accepted. None if there is none any more.

    The history names the person as the author, and beside them who had invited them.
    """
    invited = next((one for one in invitations_of(user.get_username()) if one.tenant_id == tenant_id), None)
    if invited is None:
        return None
    with tenant_context(tenant_id), pghistory.context(invited_by=invited.invited_by):
        # What is deleted here decides: it may have been withdrawn meanwhile.
        ended, _ = Invitation.objects.filter(username=user.get_username(), role=invited.role).delete()
        if not ended:
            return None
        if accepted:
            Membership.objects.get_or_create(user=user, defaults={"role": invited.role})
    return invited
