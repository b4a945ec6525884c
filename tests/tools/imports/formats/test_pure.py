"""The parsers are pure: they run in a process that has neither Django nor any other part of the portal."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

from tools.imports import formats

ROOT = Path(__file__).resolve().parents[4]
MODULES = sorted(module.name for module in pkgutil.walk_packages(formats.__path__, f"{formats.__name__}."))
# A finder that is asked first and refuses, so that an import inside of a function or a `try` would be seen as well.
PROGRAM = """
import importlib, importlib.abc, json, sys
REFUSED = {"django", "rest_framework", "psycopg", "httpcore", "httpx", "celery", "portal", "embeddings"}
tried = []
class Refusing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED or name.startswith(("tools.models", "tools.catalogue")):
            tried.append(name)
            raise ImportError(name)
sys.meta_path.insert(0, Refusing())
modules = json.load(sys.stdin)
for name in modules:
    importlib.import_module(name)
from tests.support.imports.limits import parse_document
from tools.imports.formats.tool_files import parse_tools
found = parse_document(b'{"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": {"/a": {"get": {}}}}')
print(json.dumps({"tried": tried, "tools": len(found.endpoints) + len(parse_tools(b'{"id": "a"}').endpoints)}))
"""


def test_the_parsers_run_in_a_process_without_django() -> None:
    assert len(MODULES) >= 15
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(MODULES), capture_output=True, text=True, cwd=ROOT, env={}, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"tried": [], "tools": 2}
