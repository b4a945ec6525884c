"""Admin of tenants (read-only: only the owner of the database makes them), memberships, invitations and API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from portal.tenancy.keys import DEFAULT_LIFETIME, MAX_LIFETIME, create_api_key, revoke_api_key, rotate_api_key
from portal.tenancy.members import LastAdmin, change_role, remove_member
from portal.tenancy.models import (
    ApiKey,
    IdempotencyKey,
    Invitation,
    Membership,
    Role,
    Scope,
    Sensitivity,
    Tenant,
)
from tools.admin.base import ModelForm, ReadOnlyAdmin, ServiceAdmin, TenantModelAdmin
from tools.catalogue.errors import CatalogueError


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    is_of_catalogue = False
    list_display = ("slug", "name", "created_at")


@admin.register(Membership)
class MembershipAdmin(ServiceAdmin):
    """Roles of members. Whose membership it is never changes, and a new one begins with an invitation."""

    is_of_catalogue = False
    role_to_view = role_to_write = Role.ADMIN
    list_display = ("user", "role")
    list_select_related = ("user",)
    list_filter = ("role",)
    fields = ("user", "role")
    readonly_fields = ("user",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        try:
            change_role(obj, form.cleaned_data["role"])
        except LastAdmin as error:
            raise CatalogueError(str(error)) from error

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        try:
            remove_member(obj)
        except LastAdmin as error:
            raise CatalogueError(str(error)) from error


class InvitationForm(ModelForm):
    """Asks about members and invitations of this tenant only: whether a user name exists elsewhere is not told."""

    def clean_username(self) -> str:
        username: str = User.normalize_username(self.cleaned_data["username"])
        if Membership.objects.filter(user__username=username).exists():
            raise forms.ValidationError(f"{username} is already a member of this tenant.")
        if Invitation.objects.filter(username=username).exists():
            raise forms.ValidationError(f"{username} is already invited.")
        return username


@admin.register(Invitation)
class InvitationAdmin(TenantModelAdmin):
    """What waits to be accepted on the page Invitations. It is withdrawn by deleting it."""

    is_of_catalogue = False
    role_to_view = role_to_write = Role.ADMIN
    form = InvitationForm
    list_display = ("username", "role", "invited_by", "created_at")
    fields = ("username", "role")

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Invitation, form: Any, change: bool) -> None:
        obj.invited_by = request.user.get_username()
        super().save_model(request, obj, form, change)


class ApiKeyForm(ModelForm):
    scopes = forms.MultipleChoiceField(choices=Scope.choices, widget=forms.CheckboxSelectMultiple)

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "max_sensitivity", "requests_per_minute", "expires_at")
        help_texts = {
            "expires_at": f"Empty: in {DEFAULT_LIFETIME.days} days. At most {MAX_LIFETIME.days} days from now. In UTC."
        }

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if ApiKey.objects.filter(name=name).exists():
            raise forms.ValidationError("A key with this name already exists.")
        return name

    def clean_expires_at(self) -> datetime:
        now = timezone.now()
        expires_at: datetime = self.cleaned_data["expires_at"] or now + DEFAULT_LIFETIME
        if expires_at <= now:
            raise forms.ValidationError("This time is in the past.")
        if expires_at > now + MAX_LIFETIME:
            raise forms.ValidationError(f"A key expires after {MAX_LIFETIME.days} days at most.")
        return expires_at


class NewKeyRequest(HttpRequest):
    """The request that creates a key, with the secret that its answer shows."""

    secret: str


@admin.register(ApiKey)
class ApiKeyAdmin(TenantModelAdmin):
    """A key is created here and shown once; afterwards it can be rotated, which shows its new secret once, and revoked."""

    role_to_view = role_to_write = Role.ADMIN
    role_to_delete = None
    is_of_catalogue = False
    form = ApiKeyForm
    list_display = ("name", "prefix", "scopes", "max_sensitivity", "expires_at", "last_used_at", "revoked_at")
    fields = (
        "name",
        "prefix",
        "scopes",
        "max_sensitivity",
        "requests_per_minute",
        "expires_at",
        "previous_expires_at",
        "last_used_at",
        "revoked_at",
        "created_at",
    )
    actions = ("rotate", "revoke")

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return self.has_add_permission(request)

    def get_fields(self, request: HttpRequest, obj: object = None) -> Any:
        return ApiKeyForm.Meta.fields if obj is None else self.fields

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"max_sensitivity": Sensitivity.INTERNAL}

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        given = form.cleaned_data
        row, secret = create_api_key(
            name=given["name"],
            scopes=given["scopes"],
            max_sensitivity=given["max_sensitivity"],
            expires_in=given["expires_at"] - timezone.now(),
            requests_per_minute=given["requests_per_minute"],
        )
        obj.__dict__.update(row.__dict__)
        cast(NewKeyRequest, request).secret = secret

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: object = None
    ) -> HttpResponse:
        return self._show_secret(request, "API key created", obj, cast(NewKeyRequest, request).secret)

    def _show_secret(self, request: HttpRequest, title: str, key: ApiKey, secret: str) -> HttpResponse:
        """Shows the secret in this answer and nowhere else: a redirect's message would store it in the session."""
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "key": key,
            "secret": secret,
        }
        return TemplateResponse(
            request, "admin/api_key_created.html", context, headers={"Cache-Control": "no-store"}
        )

    @admin.action(
        description="Rotate: show a new secret, end the old one in 24 hours", permissions=["revoke"]
    )
    def rotate(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        names = list(queryset.values_list("name", flat=True)[:2])
        if len(names) != 1:
            messages.error(
                request, "Select one key. Its new secret is shown once, so keys are rotated one by one."
            )
            return None
        try:
            key, secret = rotate_api_key(name=names[0])
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return None
        return self._show_secret(request, "API key rotated", key, secret)

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        keys = [
            revoke_api_key(name=name)
            for name in queryset.filter(revoked_at=None).values_list("name", flat=True)
        ]
        messages.success(request, f"{len(keys)} keys were revoked and no longer work.")


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    """The stored requests without their responses, which may show more than this user may see."""

    role_to_view = Role.ADMIN
    is_of_catalogue = False
    list_display = ("key", "api_key", "status", "created_at")
    list_select_related = ("api_key",)
    fields = ("key", "api_key", "status", "created_at")
