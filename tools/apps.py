from __future__ import annotations

from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools"
    verbose_name = "Catalogue"

    def ready(self) -> None:
        from django.core import checks

        from embeddings import registry
        from portal.http import sign_ins
        from portal.jobs import kinds
        from tools.api import errors
        from tools.catalogue import embedding_jobs, mcp_allow_list
        from tools.catalogue.embedding_text import ENTITY
        from tools.imports.syncing import jobs as import_jobs

        registry.register(ENTITY)
        for kind in (*embedding_jobs.KINDS, *import_jobs.KINDS):
            kinds.register(kind)
        errors.register()
        checks.register(mcp_allow_list.check_file, mcp_allow_list.CHECKS)
        sign_ins.connect()
