"""A migration that was written does for ever what it did then: its SQL is pinned by checksum, wherever the text comes from.

`frozen_sql.json` holds a checksum for each migration that runs SQL of ours. A change of a numbered file in tools/search/sql/, or
of a function that writes SQL for migrations (portal/tenancy/rls.py), shows here. A new migration adds its line, which the failing
test says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db.migrations import RunSQL
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from tools.search import sql

PINNED = Path(__file__).with_name("frozen_sql.json")


def statements(operations: list[Operation]) -> Iterator[str]:
    """The SQL of RunSQL operations, backwards as well, in their order."""
    for operation in operations:
        if isinstance(operation, RunSQL):
            yield from (repr(operation.sql), repr(operation.reverse_sql))
        yield from statements(getattr(operation, "database_operations", []))


def checksums() -> dict[str, str]:
    """SHA-256 of the SQL of each migration of our apps that runs some, by `app.name`."""
    ours = {
        app.label
        for app in apps.get_app_configs()
        if app.name.split(".")[0] in {"portal", "embeddings", "metrics", "tools"}
    }
    found: dict[str, Any] = {}
    for (app, name), migration in MigrationLoader(None).disk_migrations.items():
        if app in ours and (text := "\n".join(statements(migration.operations))):
            found[f"{app}.{name}"] = hashlib.sha256(text.encode()).hexdigest()
    return dict(sorted(found.items()))


def test_the_sql_of_a_migration_never_changes() -> None:
    pinned = json.loads(PINNED.read_text(encoding="utf-8"))
    found = checksums()
    changed = [name for name in pinned if found.get(name) != pinned[name]]
    assert not changed, "a migration that was released is never edited; write a new one"
    new = {name: checksum for name, checksum in found.items() if name not in pinned}
    assert not new, f"add this to {PINNED.name}: {json.dumps(new, indent=1)}"


def test_every_numbered_file_is_run_by_the_migration_of_its_number() -> None:
    migrations = MigrationLoader(None).disk_migrations
    texts = {
        name[:4]: "".join(statements(migration.operations))
        for (app, name), migration in migrations.items()
        if app == "tools"
    }
    numbered = sorted(Path(sql.__file__).parent.glob("[0-9]*.sql"))
    assert numbered
    for file in numbered:
        assert repr(sql.load(file.name))[1:-1] in texts[file.name[:4]], file.name
