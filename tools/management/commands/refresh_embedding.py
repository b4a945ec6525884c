"""Asks for new vectors of the named tools (UUID or tool_id), or of all whose embedding failed."""

from __future__ import annotations

from uuid import UUID

from django.core.management.base import CommandParser

from portal.tenancy.commands import USAGE, Options, TenantCommand
from portal.tenancy.context import tenant_context
from tools.catalogue.tools import refresh_embeddings
from tools.models import Tool


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("tool", nargs="*", metavar="TOOL")
        parser.add_argument("--namespace", default="public")
        parser.add_argument("--failed", action="store_true", help="all tools whose embedding failed")

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        if not options["tool"] and not options["failed"]:
            self.stop(USAGE, "Name at least one tool, or use --failed.")
        with tenant_context(tenant_id):
            named = [Tool.objects.find(name, options["namespace"]) for name in options["tool"]]
            pks = {tool.pk for tool in named if tool is not None}
            if options["failed"]:
                pks |= set(Tool.objects.with_embedding_status("failed").values_list("pk", flat=True))
            queued = refresh_embeddings(pks=pks)
        self.show(options, {"queued": queued}, f"{queued} queued.")
