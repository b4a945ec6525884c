"""What an import costs: `python -m bench.imports` writes bench/results/imports.json and prints a table.

Of a generated document of BENCH_OPERATIONS operations, and of two real ones (all of ../shared/inputs):

- parse: the child that reads the document, with the way back to the process that asked;
- first, again: an import in one go into a tenant of its own, and the same document once more, which must write nothing;
- floor: the document read by the plain library of its format, and the same rows copied (COPY) into tables with the same
  indexes, but without triggers and foreign keys. `ratio` is the first import over that floor, round by round.

Times are seconds by the wall; `mb` are the highest of any process that the import ran in: the one that asked, and the child.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from bench.latency import tenant_id
from bench.results import write
from bench.stack import ROOT, Stack, stack

INPUTS = ROOT.parent / "shared" / "inputs"
OPERATIONS = int(os.environ.get("BENCH_OPERATIONS", "10000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
REAL = ("netbox-3.0.json", "stripe-2020-3.0.yaml")

_MEASURED = """
import json, resource, sys, time
from pathlib import Path
import django; django.setup()
from tools.imports.fetching import sandbox
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.service import import_document
what, path, tenant = sys.argv[1:]
raw = Path(path).read_bytes()
began = time.perf_counter()
if what == 'parse':
    found = {'operations': sandbox.parse(sandbox.ANY, raw, name=path).operations}
else:
    found = import_document(IncomingDocument(raw, path, 'bench'), tenant_id=tenant, actor='bench').as_dict()
seconds = time.perf_counter() - began
peaks = [resource.getrusage(who).ru_maxrss // 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({'seconds': seconds, 'mb': max(peaks), 'found': found}))
"""
_PLAIN = """
import json, sys, time
import yaml
raw = open(sys.argv[1], 'rb').read()
began = time.perf_counter()
json.loads(raw) if raw.lstrip()[:1] == b'{' else yaml.load(raw, Loader=yaml.CSafeLoader)
print(json.dumps({'seconds': time.perf_counter() - began}))
"""


def measured(portal: Stack, code: str, *arguments: str) -> dict[str, Any]:
    """What one of the programs above prints, run by itself, so that its peaks are its own."""
    environment = {**portal.environment, "DJANGO_SETTINGS_MODULE": "portal.settings", "PORTAL_DB_ROLE": "app"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def copied(portal: Stack, tenant: str) -> float:
    """Seconds of a bare COPY of all rows that the import wrote."""
    seconds = 0.0
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"]) as owner:
        tables = owner.execute(
            "SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) "
            "WHERE table_schema = 'public' AND column_name = 'tenant_id' AND table_type = 'BASE TABLE' ORDER BY table_name"
        ).fetchall()
        for (table,) in tables:
            name, copy = sql.Identifier(table), sql.Identifier(f"floor_{table}"[:60])
            owner.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(copy, name))
            # By way of a plain table, since the columns that the database makes itself are not copied.
            rows = sql.SQL(
                "CREATE TEMPORARY TABLE rows ON COMMIT DROP AS SELECT * FROM {} WHERE tenant_id = {}"
            )
            owner.execute(rows.format(name, sql.Literal(tenant)))
            columns = sql.SQL(", ").join(
                sql.Identifier(column)
                for (column,) in owner.execute(
                    "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s "
                    "AND is_generated = 'NEVER' ORDER BY ordinal_position",
                    [table],
                )
            )
            with owner.cursor().copy(sql.SQL("COPY rows ({}) TO STDOUT").format(columns)) as source:
                data = [bytes(chunk) for chunk in source]
            began = time.perf_counter()
            with owner.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(copy, columns)) as target:
                for chunk in data:
                    target.write(chunk)
            seconds += time.perf_counter() - began
            owner.execute("DROP TABLE rows")
        owner.rollback()
    return seconds


def figures(portal: Stack, path: Path) -> dict[str, float]:
    """Medians over the rounds; peaks are the highest of all."""
    seconds: dict[str, list[float]] = {"parse": [], "first": [], "again": [], "floor": []}
    peaks = {"parse": 0, "first": 0, "again": 0}
    for number in range(ROUNDS):
        slug = f"{path.stem.lower().replace('.', '-')}-{number}"
        portal.new_tenant(slug)
        tenant = tenant_id(portal, slug)
        for name in ("parse", "first", "again"):
            done = measured(portal, _MEASURED, "parse" if name == "parse" else "import", str(path), tenant)
            seconds[name].append(done["seconds"])
            peaks[name] = max(peaks[name], done["mb"])
            found = done["found"]
            if name == "first" and found["added"] != found["operations"] - len(found["left_out"]):
                raise RuntimeError(f"{path.name}: not everything was imported: {found}")
            if name == "again" and found["unchanged"] != found["tools"]:
                raise RuntimeError(f"{path.name}: the second import changed something: {found}")
        seconds["floor"].append(measured(portal, _PLAIN, str(path))["seconds"] + copied(portal, tenant))
    ratio = statistics.median(a / b for a, b in zip(seconds["first"], seconds["floor"], strict=True))
    return {
        "operations": found["operations"],
        **{f"{name}_s": round(statistics.median(values), 2) for name, values in seconds.items()},
        **{f"{name}_mb": peak for name, peak in peaks.items()},
        "ratio": round(ratio, 2),
    }


def main() -> int:
    if not INPUTS.is_dir():
        sys.stderr.write("../shared/inputs is not here, and its documents are what is measured.\n")
        return 2
    results: dict[str, Any] = {}
    with stack() as portal, tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / f"generated-{OPERATIONS}.json"
        with generated.open("wb") as file:
            generator = INPUTS / "tools" / "gen_ops.py"
            subprocess.run([sys.executable, generator, str(OPERATIONS)], check=True, stdout=file)
        for path in (generated, *(INPUTS / "openapi" / name for name in REAL)):
            results[path.stem] = figures(portal, path)
            print(f"{path.stem:20} {results[path.stem]}", flush=True)
    write("imports", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
