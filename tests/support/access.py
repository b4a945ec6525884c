"""Writes portal/ops/access.sql from a new database that has run all migrations: `make access`."""

from __future__ import annotations

import os
import tempfile

from portal.embedded import start
from tests.support.processes import manage


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="portal-access-") as folder,
        start(folder, postgres_settings={"fsync": "off"}) as services,
    ):
        os.environ |= {
            **services.urls,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PORTAL_DB_ROLE": "admin",
        }
        manage("create_logins")
        manage("migrate", "--verbosity", "0")
        import django

        django.setup()
        from portal.ops import access

        access.FILE.write_text(access.as_file(), encoding="utf-8")


if __name__ == "__main__":
    main()
