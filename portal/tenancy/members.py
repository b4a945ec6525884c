"""Who belongs to the current tenant, and as what. A tenant keeps an admin: nobody could bring one back from its pages."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from portal.tenancy.models import Invitation, Membership, Role


class LastAdmin(Exception):
    """The change would leave the tenant without an admin; nothing was stored."""

    def __init__(self, membership: Membership) -> None:
        super().__init__(
            f"{membership.user} is the only admin of this tenant. Make another member an admin first."
        )


@transaction.atomic
def add_member(user: User, role: str) -> Membership:
    """Makes the user a member, without an invitation, or gives a member another role. Raises LastAdmin."""
    membership, is_new = Membership.objects.get_or_create(user=user, defaults={"role": role})
    Invitation.objects.filter(username=user.get_username()).delete()
    return membership if is_new else change_role(membership, role)


@transaction.atomic
def change_role(membership: Membership, role: str) -> Membership:
    """Raises LastAdmin."""
    if role != Role.ADMIN:
        _require_another_admin(membership)
    membership.role = role
    membership.save(update_fields=["role"])
    return membership


@transaction.atomic
def remove_member(membership: Membership) -> None:
    """Raises LastAdmin."""
    _require_another_admin(membership)
    membership.delete()


def _require_another_admin(membership: Membership) -> None:
    """Raises LastAdmin where the member is the only admin who can sign in."""
    admins = Membership.objects.filter(role=Role.ADMIN).order_by("pk")
    # All of them are locked, so that two admins do not remove each other at the same moment.
    locked = admins.select_for_update(no_key=True, of=("self",)).select_related("user")
    can_sign_in = {one.pk for one in locked if one.user.is_active}
    if can_sign_in == {membership.pk}:
        raise LastAdmin(membership)
