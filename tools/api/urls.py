"""Addresses under /api/v1/, without trailing slashes."""

from __future__ import annotations

from django.urls import path

from tools.api.history import views as history
from tools.api.jobs import views as jobs
from tools.api.me.views import MeView
from tools.api.overrides import views as overrides
from tools.api.search.views import SearchView
from tools.api.searches import views as searches
from tools.api.servers import views as servers
from tools.api.sources import views as sources
from tools.api.syncs import views as syncs
from tools.api.tools import views as tools

urlpatterns = [
    path("jobs", jobs.JobListView.as_view()),
    path("jobs/<str:ref>", jobs.JobView.as_view()),
    path("jobs/<str:ref>/cancel", jobs.JobCancelView.as_view()),
    path("jobs/<str:ref>/errors", jobs.JobErrorsView.as_view()),
    path("jobs/<str:ref>/resume", jobs.JobResumeView.as_view()),
    path("jobs/<str:ref>/retry-failed", jobs.JobRetryView.as_view()),
    path("me", MeView.as_view()),
    path("overrides", overrides.OverrideListView.as_view()),
    path("searches/report", searches.SearchReportView.as_view()),
    path("searches/<str:ref>/selection", searches.SelectionView.as_view()),
    path("servers", servers.ServerListView.as_view()),
    path("servers/<str:slug>", servers.ServerView.as_view()),
    path("servers/<str:slug>/test", servers.ServerTestView.as_view()),
    path("sources", sources.SourceListView.as_view()),
    path("sources/<str:slug>", sources.SourceView.as_view()),
    path("sources/<str:slug>/documents", sources.DocumentListView.as_view()),
    path("sources/<str:slug>/documents/<str:ref>", sources.DocumentView.as_view()),
    path("sources/<str:slug>/sync", syncs.SyncNowView.as_view()),
    path("sources/<str:slug>/syncs", syncs.SyncListView.as_view()),
    path("sources/<str:slug>/syncs/<str:ref>", syncs.SyncView.as_view()),
    path("sources/<str:slug>/syncs/<str:ref>/apply", syncs.SyncApplyView.as_view()),
    path("sources/<str:slug>/syncs/<str:ref>/changes", syncs.ChangeListView.as_view()),
    path("sources/<str:slug>/syncs/<str:ref>/discard", syncs.SyncDiscardView.as_view()),
    path("sources/<str:slug>/test", sources.SourceTestView.as_view()),
    path("tools", tools.ToolListView.as_view()),
    path("tools/search", SearchView.as_view()),
    path("tools/<str:ref>", tools.ToolView.as_view()),
    path("tools/<str:ref>/embedding", tools.EmbeddingView.as_view()),
    path("tools/<str:ref>/embedding/refresh", tools.EmbeddingRefreshView.as_view()),
    path("tools/<str:ref>/history", history.ToolHistoryView.as_view()),
    path("tools/<str:ref>/overrides", overrides.ToolOverridesView.as_view()),
    path("tools/<str:ref>/overrides/<str:field>", overrides.ToolOverrideView.as_view()),
    path("tools/<str:ref>/overrides/<str:field>/keep", overrides.OverrideKeepView.as_view()),
]
