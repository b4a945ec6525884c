"""Imports an OpenAPI document from a file or URL: every operation becomes a tool."""

from __future__ import annotations

from tools.management.import_command import DocumentCommand
from tools.models import SourceKind


class Command(DocumentCommand):
    help = __doc__
    kind = SourceKind.OPENAPI
