"""Addresses of the pages."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from tools.web import (
    embedding_models,
    embedding_views,
    jobs,
    problem_pages,
    search_page,
    session,
    sources,
    tool_detail,
    tool_edit,
    tool_list,
)

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
    path("tools/<uuid:pk>/delete/", tool_edit.delete_tool, name="tool-delete"),
    path("tools/<uuid:pk>/embedding/", embedding_views.embedding_card, name="embedding"),
    path("tools/<uuid:pk>/embedding/refresh/", embedding_views.refresh_embedding, name="embedding-refresh"),
    path("tools/<uuid:pk>/overrides/<slug:field>/keep/", tool_detail.keep_override, name="override-keep"),
    path("tools/<uuid:pk>/overrides/<slug:field>/reset/", tool_detail.reset_override, name="override-reset"),
    path("sources/", sources.source_list, name="source-list"),
    path("sources/import/", sources.import_page, name="source-import"),
    path("sources/<uuid:pk>/", sources.source_page, name="source"),
    path("sources/<uuid:pk>/sync-wins/", sources.set_sync_wins, name="source-sync-wins"),
    path("sources/<uuid:pk>/delete/", sources.delete_source, name="source-delete"),
]
