"""Admin of the users who are members of the tenant. No page and no form of it tells which other user names exist."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminUserCreationForm
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from portal.tenancy.context import current_tenant
from portal.tenancy.invitations import invitations_of
from portal.tenancy.middleware import memberships
from portal.tenancy.models import Membership, Role
from tools.admin.base import may

if TYPE_CHECKING:
    NewUserForm = AdminUserCreationForm[User]
    ModelAdmin = UserAdmin[User]
else:  # Django's classes take no parameters at run time
    NewUserForm = AdminUserCreationForm
    ModelAdmin = UserAdmin

admin.site.unregister(User)


def _belongs_elsewhere(person: User) -> bool:
    """Whether the person is a member of another tenant than the current one, or invited to one."""
    found = {one.tenant_id for one in memberships(person.pk)}
    found |= {one.tenant_id for one in invitations_of(person.get_username())}
    return bool(found - {current_tenant()})


class NewPersonForm(NewUserForm):
    """Asks whether the fields are well formed, and not whether the user name is taken."""

    def clean_username(self) -> str:
        username: str = self.cleaned_data["username"]
        return username

    def validate_unique(self) -> None:
        """Not here: its error would tell."""


@admin.register(User)
class PersonAdmin(ModelAdmin):
    """For superusers who are admins in the tenant. A user may be a member of other tenants too, so nobody is deleted or renamed
    here: Active is taken away instead. The account of somebody who belongs to another tenant is only shown: with a password set
    here one could sign in there as that person."""

    add_form = NewPersonForm
    add_form_template = "admin/new_person.html"

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return may(request, Role.ADMIN) and request.user.is_active and request.user.is_superuser

    has_module_permission = has_add_permission = has_view_permission

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return self.has_view_permission(request) and (obj is None or not _belongs_elsewhere(obj))

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).filter(pk__in=Membership.objects.values("user"))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        return ("username",) if obj else ()

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
        elif not User.objects.filter(username__iexact=obj.username).exists():
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
