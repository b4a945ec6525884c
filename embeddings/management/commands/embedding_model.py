"""Shows the embedding models and their slots, switches to the second one (and back), or drops it (EMB-10)."""

from __future__ import annotations

from dataclasses import asdict

from django.core.management.base import CommandParser

from embeddings import slots
from portal.tenancy.commands import REFUSED, Options, PortalCommand


class Command(PortalCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("action", choices=("status", "switch", "drop"), nargs="?", default="status")

    def run(self, options: Options) -> None:
        try:
            if options["action"] == "switch":
                message = f"{slots.switch().model} serves now. Run the same command again to go back."
            elif options["action"] == "drop":
                message = f"{slots.drop().model} was dropped, and its vectors are deleted."
                slots.clear_dropped()
            else:
                message = ""
        except slots.SlotError as error:
            self.stop(REFUSED, str(error))
        found = slots.completeness()
        models = [{"slot": slot.number, "model": slot.model, "serves": slot.serves} for slot in slots.all()]
        progress = {**asdict(found), "complete": found.is_complete} if found else None
        lines = [
            f"slot {row['slot']}: {row['model']}{' (serves)' if row['serves'] else ''}" for row in models
        ]
        if found:
            lines.append(
                f"{found.ready:,} of {found.total:,} vectors are in both slots, {found.failed:,} failed"
            )
        self.show(
            options, {"models": models, "progress": progress}, "\n".join(filter(None, [message, *lines]))
        )
