"""Brings back what the sources say, over what operators wrote: of the named tools (UUID or tool_id), of a source, or of all.
Shows the difference and asks first."""

from __future__ import annotations

import json
import sys
from uuid import UUID

from django.core.management.base import CommandParser
from django.db.models import QuerySet
from django.template.defaultfilters import pluralize

from portal.tenancy.commands import REFUSED, USAGE, Options, TenantCommand
from portal.tenancy.context import tenant_context
from tools import fields
from tools.catalogue import overrides
from tools.catalogue.errors import CatalogueError
from tools.management.import_command import ACTOR
from tools.models import PARAMETER_PREFIX, ManualOverride, Source, Tool


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("tool", nargs="*", metavar="TOOL")
        parser.add_argument(
            "--namespace", default="public", help="of tools named by tool_id; default: %(default)s"
        )
        parser.add_argument("--source", default="", metavar="SLUG", help="all tools of this source")
        parser.add_argument("--all", action="store_true", help="all tools")
        parser.add_argument(
            "--field", default="", help="this field only; parameters.NAME for a parameter's description"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--dry-run", action="store_true", help="show the difference, and reset nothing")

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        with tenant_context(tenant_id):
            chosen = self._chosen(options)
            values = dict(chosen.values_list("pk", "value"))
            found = overrides.override_statuses(chosen)
        told = [
            {"tool": one.tool_name, "id": str(one.tool_id), "field": one.field, "value": values[one.pk], "imported": one.imported}
            for one in found
        ]  # fmt: skip
        for one in told:
            self.stderr.write(_diff(one))
        reset = 0
        if found and not options["dry_run"]:
            self._ask(len(found), options)
            try:
                with tenant_context(tenant_id):
                    reset = overrides.reset_many(overrides=[one.pk for one in found], actor=ACTOR)
            except CatalogueError as error:
                self.stop(REFUSED, str(error))
        said = (
            f"{len(found):,} override{pluralize(found)} would be reset."
            if options["dry_run"]
            else f"{reset:,} override{pluralize(reset)} reset."
        )
        self.show(options, {"reset": reset, "dry_run": options["dry_run"], "overrides": told}, said)

    def _chosen(self, options: Options) -> QuerySet[ManualOverride]:
        if sum(map(bool, (options["tool"], options["source"], options["all"]))) != 1:
            self.stop(USAGE, "Name tools, or a source with --source, or take all with --all.")
        chosen: QuerySet[ManualOverride] = ManualOverride.objects.all()
        if options["source"]:
            if not Source.objects.filter(slug=options["source"]).exists():
                self.stop(USAGE, f"There is no source {options['source']!r}.")
            chosen = chosen.filter(tool__source__slug=options["source"])
        if options["tool"]:
            tools = [self._tool(name, options["namespace"]) for name in options["tool"]]
            chosen = chosen.filter(tool__in=tools)
        field = options["field"]
        if field and field not in fields.OVERRIDABLE and not field.startswith(PARAMETER_PREFIX):
            known = ", ".join(fields.OVERRIDABLE)
            self.stop(USAGE, f"There is no field {field!r} to override. Known: {known}, parameters.NAME.")
        return chosen.filter(field=field) if field else chosen

    def _tool(self, name: str, namespace: str) -> Tool:
        tool: Tool | None = Tool.objects.find(name, namespace)
        if tool is None:
            self.stop(USAGE, f"There is no tool {name!r} in {namespace}.")
        return tool

    def _ask(self, count: int, options: Options) -> None:
        if options["yes"]:
            return
        if options["json"] or not sys.stdin.isatty():
            self.stop(USAGE, "Nothing was reset. Add --yes to do it without being asked.")
        if input(f"Reset {count:,} override{pluralize(count)}? [y/N] ").strip().lower() not in {"y", "yes"}:
            self.stop(REFUSED, "Nothing was reset.")


def _diff(one: dict[str, object]) -> str:
    return f"{one['tool']}: {one['field']}\n  - {_text(one['value'])}\n  + {_text(one['imported'])}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
