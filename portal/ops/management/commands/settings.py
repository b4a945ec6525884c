"""Lists every setting with its value, its default and where the value came from. Secrets are masked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby

from django.core.management.base import CommandParser

from portal.env import DECLARED, Setting, Value, plain
from portal.tenancy.commands import Options, PortalCommand

_HEAD = """# Settings

Written by `manage.py settings --markdown`; a test compares the two. A setting is read when a process starts: from the environment,
else from the file that `make up` generates (`.portal/services.json`), else it is the default. A value outside its bounds stops the
process with a sentence that names the setting. `manage.py settings` lists the values in force and where each came from.

These are no settings, because the database holds them in a column, a constraint or stored rows: the length of a `tool_id` (200
characters), the range of a tool's semantic weight (0.1 to 3), the weights of words in the keyword index (docs/search.md).
"""


class Command(PortalCommand):
    help = __doc__
    requires_system_checks: list[str] = []  # the command is for when something is wrong

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--markdown", action="store_true", help="print the page docs/settings.md instead")

    def run(self, options: Options) -> None:
        settings = DECLARED.values()
        if options["markdown"]:
            self.stdout.write(as_markdown(settings), ending="")
            return
        self.show(options, {"settings": [asdict(one) for one in settings]}, as_table(settings))


def as_table(settings: Iterable[Setting]) -> str:
    """Aligned columns: name, value, default, origin."""
    rows = [("SETTING", "VALUE", "DEFAULT", "FROM")]
    rows += [(one.name, _shown(one.value), _shown(one.default), str(one.origin)) for one in settings]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    )


def as_markdown(settings: Iterable[Setting]) -> str:
    """The page docs/settings.md: a table a section. It shows no value, so that it is the same on every machine."""
    text = _HEAD
    for section, declared in groupby(settings, key=lambda one: one.section):
        text += f"\n## {section}\n\n| setting | type | default | meaning |\n|---|---|---|---|\n"
        for one in declared:
            kind = f"{one.kind}: {one.bounds}" if one.bounds else one.kind
            default = "required" if one.default is None else _code(_shown(one.default))
            text += f"| `{one.name}` | {kind} | {default} | {one.meaning} |\n"
    return text


def _code(text: str) -> str:
    return f"`{text}`" if text and " " not in text else text or "none"


def _shown(value: Value | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return plain(value)
    return ",".join(value) if isinstance(value, list) else value
