"""Admin of tenants (read-only: only the owner of the database makes them), memberships and API keys."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from portal.tenancy.keys import create_api_key
from portal.tenancy.models import ApiKey, IdempotencyKey, Membership, Role, Scope, Sensitivity, Tenant
from tools.admin.base import ModelForm, ReadOnlyAdmin, TenantModelAdmin


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    is_of_catalogue = False
    list_display = ("slug", "name", "created_at")


class MembershipForm(ModelForm):
    # A text input, not a list: users belong to no tenant, so a list would show all user names to every tenant.
    user = forms.ModelChoiceField(
        get_user_model().objects.all(), to_field_name="username", widget=forms.TextInput, label="Username"
    )

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        user = cleaned.get("user")
        if user is not None and Membership.objects.filter(user=user).exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError(f"{user} is already a member of this tenant.")
        return cleaned


@admin.register(Membership)
class MembershipAdmin(TenantModelAdmin):
    is_of_catalogue = False
    form = MembershipForm
    role_to_view = role_to_write = Role.ADMIN
    list_display = ("user", "role")
    list_select_related = ("user",)
    list_filter = ("role",)


class ApiKeyForm(ModelForm):
    scopes = forms.MultipleChoiceField(choices=Scope.choices, widget=forms.CheckboxSelectMultiple)

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "max_sensitivity", "requests_per_minute", "expires_at")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if ApiKey.objects.filter(name=name).exists():
            raise forms.ValidationError("A key with this name already exists.")
        return name

    def clean_expires_at(self) -> Any:
        expires_at = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= timezone.now():
            raise forms.ValidationError("This time is in the past.")
        return expires_at


class NewKeyRequest(HttpRequest):
    """The request that creates a key, with the secret that its answer shows."""

    secret: str


@admin.register(ApiKey)
class ApiKeyAdmin(TenantModelAdmin):
    """A key is created here and shown once; afterwards it can only be revoked."""

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
        "last_used_at",
        "revoked_at",
        "created_at",
    )
    actions = ("revoke",)

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
        expires_in = given["expires_at"] - timezone.now() if given["expires_at"] else None
        row, secret = create_api_key(
            name=given["name"],
            scopes=given["scopes"],
            max_sensitivity=given["max_sensitivity"],
            expires_in=expires_in,
            requests_per_minute=given["requests_per_minute"],
        )
        obj.__dict__.update(row.__dict__)
        cast(NewKeyRequest, request).secret = secret

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: object = None
    ) -> HttpResponse:
        """Shows the key in this answer and nowhere else: a redirect's message would store it in the session."""
        context = {
            **self.admin_site.each_context(request),
            "title": "API key created",
            "opts": self.opts,
            "key": obj,
            "secret": cast(NewKeyRequest, request).secret,
        }
        return TemplateResponse(
            request, "admin/api_key_created.html", context, headers={"Cache-Control": "no-store"}
        )

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        messages.success(request, f"{count} keys were revoked and no longer work.")


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    """The stored requests without their responses, which may show more than this user may see."""

    role_to_view = Role.ADMIN
    is_of_catalogue = False
    list_display = ("key", "api_key", "status", "created_at")
    list_select_related = ("api_key",)
    fields = ("key", "api_key", "status", "created_at")
