"""Addresses of the pages."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from tools.web.embeddings import model_views as embedding_models
from tools.web.embeddings import views as embedding_views
from tools.web.jobs import views as jobs
from tools.web.overrides import views as overrides
from tools.web.problems import views as problem_pages
from tools.web.search import views as search_page
from tools.web.servers import views as servers
from tools.web.shell import session
from tools.web.sources import import_views as source_import
from tools.web.sources import views as sources
from tools.web.syncs import views as syncs
from tools.web.tools import detail as tool_detail
from tools.web.tools import list as tool_list
from tools.web.tools import views as tool_edit

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="tool-list"), name="home"),
    path("login/", session.login, name="login"),
    path("logout/", session.logout, name="logout"),
    path("theme/", session.set_theme, name="theme"),
    path("tenant/", session.switch_tenant, name="switch-tenant"),
    path("docs/problems/", problem_pages.problem_list, name="problem-list"),
    path("docs/problems/<slug:name>", problem_pages.problem_page, name="problem"),
    path("jobs/", jobs.job_list, name="job-list"),
    path("jobs/new/", jobs.new_job, name="job-new"),
    path("jobs/pill/", jobs.job_pill, name="job-pill"),
    path("jobs/<uuid:pk>/", jobs.job_page, name="job"),
    path("jobs/<uuid:pk>/cancel/", jobs.cancel_job, name="job-cancel"),
    path("jobs/<uuid:pk>/resume/", jobs.resume_job, name="job-resume"),
    path("jobs/<uuid:pk>/retry/", jobs.retry_job, name="job-retry"),
    path("models/", embedding_models.models_page, name="models"),
    path("models/switch/", embedding_models.switch_model, name="models-switch"),
    path("models/drop/", embedding_models.drop_model, name="models-drop"),
    path("search/", search_page.search_page, name="search"),
    path("tools/", tool_list.tool_list, name="tool-list"),
    path("tools/new/", tool_edit.new_tool, name="tool-new"),
    path("tools/badges/", embedding_views.badges, name="badges"),
    path("tools/refresh-embeddings/", embedding_views.refresh_selected, name="refresh-selected"),
    path("tools/refresh-matching/", embedding_views.refresh_matching, name="refresh-matching"),
    path("tools/<uuid:pk>/", tool_detail.tool_page, name="tool"),
    path("tools/<uuid:pk>/edit/", tool_edit.edit_tool, name="tool-edit"),
    path("tools/<uuid:pk>/history/", tool_detail.history_page, name="tool-history"),
    path("tools/<uuid:pk>/active/", tool_edit.set_active, name="tool-active"),
    path("tools/<uuid:pk>/delete/", tool_edit.delete, name="tool-delete"),
    path("tools/<uuid:pk>/embedding/", embedding_views.embedding_card, name="embedding"),
    path("tools/<uuid:pk>/embedding/refresh/", embedding_views.refresh_embedding, name="embedding-refresh"),
    path("tools/<uuid:pk>/history/<int:event>/restore/", tool_edit.restore_version, name="tool-restore"),
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
    path("sources/import/", source_import.import_page, name="source-import"),
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
