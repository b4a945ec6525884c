from __future__ import annotations

from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools"
    verbose_name = "Catalogue"

    def ready(self) -> None:
        from embeddings import registry
        from portal.jobs import kinds
        from tools.embedding import ENTITY
        from tools.jobs import KINDS

        registry.register(ENTITY)
        for kind in KINDS:
            kinds.register(kind)
