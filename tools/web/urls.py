"""Addresses of the pages."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from tools.web.embeddings import model_views as models
from tools.web.embeddings import views as embeddings
from tools.web.history import views as history
from tools.web.jobs import views as jobs
from tools.web.overrides import views as overrides
from tools.web.problems import views as problems
from tools.web.search import views as search
from tools.web.servers import views as servers
from tools.web.shell import invitations, session
from tools.web.sources import import_views
from tools.web.sources import views as sources
from tools.web.syncs import views as syncs
from tools.web.tools import list as tool_list
from tools.web.tools import views as tools

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="tool-list"), name="home"),
    path("login/", session.login, name="login"),
    path("logout/", session.logout, name="logout"),
    path("password/", session.change_password, name="password"),
    path("theme/", session.set_theme, name="theme"),
    path("invitations/", invitations.invitations, name="invitations"),
    path("tenant/", session.switch_tenant, name="switch-tenant"),
    path("docs/problems/", problems.problem_list, name="problem-list"),
    path("docs/problems/<slug:name>", problems.problem_page, name="problem"),
    path("jobs/", jobs.job_list, name="job-list"),
    path("jobs/new/", jobs.new_job, name="job-new"),
    path("jobs/pill/", jobs.job_pill, name="job-pill"),
    path("jobs/<uuid:pk>/", jobs.job_page, name="job"),
    path("jobs/<uuid:pk>/cancel/", jobs.cancel_job, name="job-cancel"),
    path("jobs/<uuid:pk>/resume/", jobs.resume_job, name="job-resume"),
    path("jobs/<uuid:pk>/retry/", jobs.retry_job, name="job-retry"),
    path("models/", models.models_page, name="models"),
    path("models/switch/", models.switch_model, name="models-switch"),
    path("models/drop/", models.drop_model, name="models-drop"),
    path("search/", search.search_page, name="search"),
    path("tools/", tool_list.tool_list, name="tool-list"),
    path("tools/new/", tools.new_tool, name="tool-new"),
    path("tools/badges/", embeddings.badges, name="badges"),
    path("tools/refresh-embeddings/", embeddings.refresh_selected, name="refresh-selected"),
    path("tools/refresh-matching/", embeddings.refresh_matching, name="refresh-matching"),
    path("tools/<uuid:pk>/", tools.tool_page, name="tool"),
    path("tools/<uuid:pk>/edit/", tools.edit_tool, name="tool-edit"),
    path("tools/<uuid:pk>/history/", history.history_page, name="tool-history"),
    path("tools/<uuid:pk>/active/", tools.set_active, name="tool-active"),
    path("tools/<uuid:pk>/delete/", tools.delete, name="tool-delete"),
    path("tools/<uuid:pk>/embedding/", embeddings.embedding_card, name="tool-embedding"),
    path("tools/<uuid:pk>/embedding/refresh/", embeddings.refresh_embedding, name="tool-embedding-refresh"),
    path("tools/<uuid:pk>/history/<int:event>/restore/", history.restore_version, name="tool-restore"),
    path("overrides/", overrides.override_list, name="override-list"),
    path("overrides/reset/", overrides.reset_overrides, name="override-reset"),
    path("overrides/keep/", overrides.keep_overrides, name="override-keep"),
    path("overrides/undo/", overrides.undo_reset, name="override-undo"),
    path("overrides/patch/", overrides.override_patch, name="override-patch"),
    path("servers/", servers.server_list, name="server-list"),
    path("servers/new/", servers.new_server, name="server-new"),
    path("servers/<uuid:pk>/", servers.server_page, name="server"),
    path("servers/<uuid:pk>/edit/", servers.edit_server, name="server-edit"),
    path("servers/<uuid:pk>/test/", servers.test_server, name="server-test"),
    path("servers/<uuid:pk>/delete/", servers.delete_server, name="server-delete"),
    path("sources/", sources.source_list, name="source-list"),
    path("sources/import/", import_views.import_page, name="source-import"),
    path("sources/<uuid:pk>/", sources.source_page, name="source"),
    path("sources/<uuid:pk>/settings/", sources.save_settings, name="source-settings"),
    path("sources/<uuid:pk>/sync/", sources.sync_source, name="source-sync"),
    path("sources/<uuid:pk>/documents/<uuid:document>/", sources.download_document, name="source-document"),
    path("sources/<uuid:pk>/syncs/<uuid:sync>/", syncs.sync_page, name="sync"),
    path("sources/<uuid:pk>/syncs/<uuid:sync>/choose/", syncs.choose, name="sync-choose"),
    path("sources/<uuid:pk>/syncs/<uuid:sync>/apply/", syncs.apply_sync, name="sync-apply"),
    path("sources/<uuid:pk>/syncs/<uuid:sync>/discard/", syncs.discard, name="sync-discard"),
    path("sources/<uuid:pk>/syncs/<uuid:sync>/again/", syncs.plan_again, name="sync-again"),
    path("sources/<uuid:pk>/delete/", sources.delete_source, name="source-delete"),
]
