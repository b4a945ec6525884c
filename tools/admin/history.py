"""Admin of the history: append-only events of sources, MCP servers, tools and overrides, of who may do what, and of sign-ins, newest
first (CAT-8, S16)."""

from __future__ import annotations

from typing import Any, cast

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from portal.tenancy.models import Role, SignIn
from tools.admin.base import AdminRequest, ReadOnlyAdmin


class EventAdmin(ReadOnlyAdmin):
    list_display = ("pgh_created_at", "pgh_label", "what", "who", "request_id")
    list_display_links = ("pgh_created_at",)
    list_filter = ("pgh_label",)
    ordering = ("-pgh_id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Event models have a plain manager; the policy in the database stands beneath.
        return super().get_queryset(request).filter(tenant_id=cast(AdminRequest, request).member.tenant_id)

    @admin.display(description="what")
    def what(self, event: object) -> str:
        return str(getattr(event, "name", "") or getattr(event, "slug", "") or getattr(event, "field", ""))

    @admin.display(description="who")
    def who(self, event: object) -> str:
        return str((getattr(event, "pgh_context", None) or {}).get("actor", ""))

    @admin.display(description="request")
    def request_id(self, event: object) -> str:
        return str((getattr(event, "pgh_context", None) or {}).get("request", ""))


class AccessEventAdmin(EventAdmin):
    """Who may do what is for those who decide it."""

    role_to_view = Role.ADMIN
    is_of_catalogue = False


class MembershipEventAdmin(AccessEventAdmin):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A subquery, since a join would hide the events of people who are gone.
        names = get_user_model().objects.filter(pk=OuterRef("user_id")).values("username")
        events: QuerySet[Any] = super().get_queryset(request).annotate(username=Subquery(names))
        return events

    @admin.display(description="what")
    def what(self, event: Any) -> str:
        return f"{event.username or event.user_id}: {event.role}"


@admin.register(SignIn)
class SignInAdmin(ReadOnlyAdmin):
    is_of_catalogue = False
    role_to_view = Role.ADMIN
    list_display = ("at", "username", "outcome", "address", "request_id")
    list_filter = ("outcome",)
    search_fields = ("username", "address", "request_id")
    ordering = ("-at",)


for _name in ("SourceEvent", "McpServerEvent", "ToolEvent", "ManualOverrideEvent"):
    admin.site.register(apps.get_model("tools", _name), EventAdmin)
admin.site.register(apps.get_model("tenancy", "MembershipEvent"), MembershipEventAdmin)
admin.site.register(apps.get_model("tenancy", "ApiKeyEvent"), AccessEventAdmin)
