"""Admin of the users who are members of the tenant, and of the groups of permissions. No page and no form of it tells which other user
names exist."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminUserCreationForm
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from portal.tenancy.invitations import Invited, invitations_of
from portal.tenancy.middleware import Member, memberships
from portal.tenancy.models import Membership, Role
from tools.admin.base import ShownLookups, is_superuser, may

if TYPE_CHECKING:
    NewUserForm = AdminUserCreationForm[User]
    ModelAdmin = UserAdmin[User]
else:  # Django's classes take no parameters at run time
    NewUserForm = AdminUserCreationForm
    ModelAdmin = UserAdmin

admin.site.unregister([User, Group])

BEYOND = (
    "This user also belongs to a tenant in which you are no admin, or is invited to one, so nothing about them can be changed here. Their password "
    "can be set with manage.py changepassword."
)


class ForSuperusers(ShownLookups):
    """What tenants share: for superusers who are admins in the tenant that they work in."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request, Role.ADMIN) and is_superuser(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)


@admin.register(Group)
class PermissionGroupAdmin(ForSuperusers, GroupAdmin):
    """Groups of Django's permissions. Those bound what the staff of all tenants may do in this admin, beside their roles."""

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """No page: it would name superusers of other tenants."""
        raise Http404("Groups have no history page.")


class NewPersonForm(NewUserForm):
    """Asks whether the fields are well formed, and not whether the user name is taken."""

    def clean_username(self) -> str:
        username: str = self.cleaned_data["username"]
        return username

    def validate_unique(self) -> None:
        """Not here: its error would tell."""


def _is_beyond(superuser: Any, tenants: Iterable[Member | Invited]) -> bool:
    """Whether one of these tenants is one in which the superuser is no admin."""
    own = {one.tenant_id for one in memberships(superuser.pk) if one.may(Role.ADMIN)}
    return any(one.tenant_id not in own for one in tenants)


@admin.register(User)
class PersonAdmin(ForSuperusers, ModelAdmin):
    """A user may be a member of other tenants too, so nobody is deleted or renamed here: Active is taken away instead. Of such a
    user nothing is changed: with a new password one would sign in to the other tenant as them."""

    add_form = NewPersonForm
    add_form_template = "admin/new_person.html"

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        if not super().has_change_permission(request, obj):
            return False
        if obj is None or obj == request.user:
            return True
        # Whoever sets the password of somebody who is invited could accept the invitation.
        return not _is_beyond(request.user, [*memberships(obj.pk), *invitations_of(obj.get_username())])

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        shown = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return shown
        return [(None, {"fields": (), "description": BEYOND}), *shown]

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """What Django logged of the person, which the admins of all their tenants did."""
        person = self.get_object(request, unquote(object_id))
        if person is not None and not self.has_change_permission(request, person):
            raise PermissionDenied(BEYOND)
        return super().history_view(request, object_id, extra_context)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).filter(pk__in=Membership.objects.values("user"))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        return ("username",) if obj else ()

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
        elif not User.objects.filter(username__iexact=obj.username).exists() and not _is_beyond(
            # Whoever made the user of an invited name could accept the invitation.
            request.user,
            invitations_of(obj.username),
        ):
            with suppress(IntegrityError), transaction.atomic():  # somebody else was faster
                obj.save()

    def log_addition(self, request: HttpRequest, obj: User, message: Any) -> Any:
        # Without a primary key, which a user whose name was taken does not have.
        return super().log_addition(request, User(username=obj.username), message)

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: object = None) -> HttpResponse:
        """The same for a name that was free and one that was taken."""
        messages.success(
            request,
            f"You can now invite {obj.username}. If this user name was already in use, it was not changed and keeps its password.",
        )
        return redirect(f"{reverse('admin:tenancy_invitation_add')}?{urlencode({'username': obj.username})}")
