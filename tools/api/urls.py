"""Addresses under /api/v1/, without trailing slashes."""

from __future__ import annotations

from django.urls import path

from tools.api import jobs, views

urlpatterns = [
    path("jobs", jobs.JobListView.as_view()),
    path("jobs/<str:ref>", jobs.JobView.as_view()),
    path("jobs/<str:ref>/cancel", jobs.JobCancelView.as_view()),
    path("jobs/<str:ref>/errors", jobs.JobErrorsView.as_view()),
    path("jobs/<str:ref>/resume", jobs.JobResumeView.as_view()),
    path("jobs/<str:ref>/retry-failed", jobs.JobRetryView.as_view()),
    path("me", views.MeView.as_view()),
    path("sources", views.SourceListView.as_view()),
    path("tools", views.ToolListView.as_view()),
    path("tools/search", views.SearchView.as_view()),
    path("tools/<str:ref>", views.ToolView.as_view()),
    path("tools/<str:ref>/embedding", views.EmbeddingView.as_view()),
    path("tools/<str:ref>/embedding/refresh", views.EmbeddingRefreshView.as_view()),
]
