"""Makes the default tenant, its operator, an API key and the demo catalogue, once; safe to repeat."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from django.core.management.base import CommandParser

from portal import env
from portal.embedded.errors import ServiceError
from portal.tenancy.commands import REFUSED, Options, PortalCommand
from tools.catalogue.errors import CatalogueError
from tools.first_run import FirstRun, first_run
from tools.imports.formats.specs import DocumentRefused

FILE_NAME = "first-run.json"


class Command(PortalCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--no-demo", action="store_true", help="leave the catalogue empty")

    def run(self, options: Options) -> None:
        file = Path(os.environ.get("PORTAL_STATE") or env.STATE) / FILE_NAME
        url = os.environ.get("PORTAL_URL") or f"http://127.0.0.1:{os.environ.get('PORT') or 8000}"
        try:
            done = first_run(file=file, url=url, demo=not options["no_demo"])
        except ServiceError as error:
            self.stop(error.exit_code, str(error))
        except (DocumentRefused, CatalogueError) as error:
            self.stop(REFUSED, f"The demo catalogue cannot be imported: {error}")
        self.show(options, {"file": str(file), **asdict(done)}, _sentence(done, file))


def _sentence(done: FirstRun, file: Path) -> str:
    if done.created:
        return f"Tenant default made with {done.tools} demo tools; its operator's password and API key stand in {file}."
    if done.renewed:
        return (
            f"The secrets of this database were not in {file}: it now holds a new password of operator and the new API key "
            f"{done.key_name!r}; older keys stay valid until they expire or are revoked."
        )
    return "First run: done before, nothing changed."
