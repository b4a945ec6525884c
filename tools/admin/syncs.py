"""Admin of syncs and their changes: read-only; the portal's own pages apply and discard them."""

from __future__ import annotations

from django.contrib import admin

from tools.admin.base import ReadOnlyAdmin
from tools.models import Sync, SyncChange


@admin.register(Sync)
class SyncAdmin(ReadOnlyAdmin):
    list_display = ("source", "state", "created_at", "created_by", "ended_at", "ended_by")
    list_select_related = ("source",)
    list_filter = ("state", "source")


@admin.register(SyncChange)
class SyncChangeAdmin(ReadOnlyAdmin):
    list_display = ("name", "action", "key", "conflict", "applied")
    list_filter = ("action", "conflict", "applied")
    search_fields = ("key", "name")
