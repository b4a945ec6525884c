from __future__ import annotations

from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools"
    verbose_name = "Catalogue"

    def ready(self) -> None:
        from embeddings import registry
        from portal.http import sign_ins
        from portal.jobs import kinds
        from tools.api import errors
        from tools.catalogue import embedding_jobs
        from tools.catalogue.embedding_text import ENTITY
        from tools.imports.syncing import jobs as import_jobs

        registry.register(ENTITY)
        for kind in (*embedding_jobs.KINDS, *import_jobs.KINDS):
            kinds.register(kind)
        errors.register()
        sign_ins.connect()
