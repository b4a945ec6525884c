"""All addresses of the portal."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from portal.ops import health, prometheus
from tools.api.schema.views import docs_page, schema
from tools.web.shell.session import admin_login

admin_addresses, admin_app, admin_name = admin.site.urls
# Without "view on site": no model has a page that it could lead to, and it fails for those without a table.
admin_addresses = [one for one in admin_addresses if getattr(one, "name", "") != "view_on_site"]

urlpatterns = [
    path("livez", health.livez),
    path("readyz", health.readyz),
    path("metrics", prometheus.metrics),
    path("admin/login/", admin_login),
    # The admin has no page for a person's own password: the portal's counts how often the present one is tried (S7).
    path("admin/password_change/", RedirectView.as_view(pattern_name="password")),
    path("admin/password_change/done/", RedirectView.as_view(pattern_name="password")),
    path("admin/", (admin_addresses, admin_app, admin_name)),
    path("api/v1/", include("tools.api.urls")),
    path("api/v1/schema", schema),
    path("api/docs", docs_page),
    path("", include("tools.web.urls")),
]

handler400 = "tools.web.shell.errors.bad_request"
handler403 = "tools.web.shell.errors.permission_denied"
handler404 = "tools.web.shell.errors.not_found"
handler500 = "tools.web.shell.errors.server_error"
