#!/usr/bin/env python
"""Runs a Django command as the database login that fits it (see portal/settings.py, DB_ROLE)."""

from __future__ import annotations

import os
import sys

# Commands that own the schema or stand above tenants; everything else runs as the application.
ADMIN_COMMANDS = {
    "add_member",
    "create_api_key",
    "create_logins",
    "create_tenant",
    "changepassword",
    "createsuperuser",
    "embedding_model",
    "first_run",
    "makemigrations",
    "migrate",
    "prepare_database",
    "revoke_api_key",
    "rotate_api_key",
    "showmigrations",
    "sqlmigrate",
}
WORKER_COMMANDS = {"embed_worker", "job_worker", "prune"}


def role_of(command: str) -> str:
    if command in ADMIN_COMMANDS:
        return "admin"
    return "worker" if command in WORKER_COMMANDS else "app"


def main() -> None:
    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    os.environ.setdefault("PORTAL_DB_ROLE", role_of(command))

    from portal.embedded import ensure

    with ensure():
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
