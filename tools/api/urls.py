"""Addresses under /api/v1/, without trailing slashes."""

from __future__ import annotations

from django.urls import path

from tools.api import views

urlpatterns = [
    path("me", views.MeView.as_view()),
    path("sources", views.SourceListView.as_view()),
    path("tools", views.ToolListView.as_view()),
    path("tools/search", views.SearchView.as_view()),
    path("tools/<str:ref>", views.ToolView.as_view()),
    path("tools/<str:ref>/embedding", views.EmbeddingView.as_view()),
    path("tools/<str:ref>/embedding/refresh", views.EmbeddingRefreshView.as_view()),
]
