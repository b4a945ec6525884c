"""All addresses of the portal."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from portal import health

urlpatterns = [
    path("livez", health.livez),
    path("readyz", health.readyz),
    path("admin/", admin.site.urls),
]
