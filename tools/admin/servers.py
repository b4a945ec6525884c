"""Admin of MCP servers: writes by the same services as the pages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from portal.tenancy.models import Role
from tools.admin.base import SettingsAdmin, SettingsForm
from tools.catalogue import servers
from tools.models import McpServer


class ServerForm(SettingsForm):
    def clean(self) -> dict[str, Any] | None:
        """Adds the message of the service; the model would only name the constraint."""
        cleaned = super().clean() or {}
        if bool(cleaned.get("url")) == bool(cleaned.get("command_id")):
            self.add_error("url", servers.ONE_WAY)
        return cleaned


@admin.register(McpServer)
class McpServerAdmin(SettingsAdmin):
    """Health and last error are read-only: a test or a sync writes them."""

    form = ServerForm
    role_to_write = Role.ADMIN
    list_display = ("slug", "title", "url", "command_id", "health", "synced_at")
    list_filter = ("health",)
    search_fields = ("slug", "title", "url")
    fields = (
        "slug",
        "title",
        "url",
        "command_id",
        "headers",
        "seen",
        "health",
        "synced_at",
        "last_error",
        "created_at",
        "updated_at",
    )
    readonly_fields = ("health", "synced_at", "last_error", "created_at", "updated_at")

    def save_model(self, request: HttpRequest, obj: McpServer, form: Any, change: bool) -> None:
        who = request.user.get_username()
        given = {name: value for name, value in form.cleaned_data.items() if name != "seen"}
        if change:
            changes = {name: value for name, value in given.items() if name in form.changed_data}
            seen = form.cleaned_data["seen"]
            saved = servers.update_server(pk=obj.pk, actor=who, expected_event=seen, **changes)
        else:
            saved = servers.create_server(actor=who, **given)
        obj.__dict__.update(saved.__dict__)

    def delete_model(self, request: HttpRequest, obj: McpServer) -> None:
        servers.delete_server(pk=obj.pk, actor=request.user.get_username())
