"""Creates the two logins that DATABASE_URL and DATABASE_WORKER_URL name, with their passwords; safe to repeat."""

from __future__ import annotations

from portal.ops.logins import OneLoginTwice, ensure_logins
from portal.tenancy.commands import REFUSED, Options, PortalCommand


class Command(PortalCommand):
    help = __doc__

    def run(self, options: Options) -> None:
        try:
            made = ensure_logins()
        except OneLoginTwice as error:
            self.stop(REFUSED, str(error))
        self.show(options, {"logins": made}, f"Logins made: {', '.join(made)}")
