"""Documents of several files, packed."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from typing import Any

Files = dict[str, Any]
MAIN = {"openapi": "3.0.0", "info": {"title": "A", "version": "1"},
        "paths": {"/users": {"$ref": "paths/users.json"}}}  # fmt: skip


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def zipped(files: Files, folder: str = "") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(folder + name, _bytes(value))
    return made.getvalue()


def tarred(files: Files, folder: str = "") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, value in files.items():
            entry = tarfile.TarInfo(folder + name)
            entry.size = len(_bytes(value))
            archive.addfile(entry, io.BytesIO(_bytes(value)))
    return made.getvalue()
