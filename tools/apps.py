from __future__ import annotations

from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools"
    verbose_name = "Catalogue"

    def ready(self) -> None:
        from embeddings import registry
        from tools.embedding import ENTITY

        registry.register(ENTITY)
