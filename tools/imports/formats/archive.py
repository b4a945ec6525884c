"""An archive (zip or tar.gz) of a document in several files as one document.

Each file's values are put into the main document under a key of their own, and references from file to file become
references inside that document, so that all that comes after knows one document only. Nothing is written to a disk, and
what a reference names is looked for in the archive alone.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import unquote

from tools.imports.formats.json_document import LoadedDocument, load_document
from tools.imports.formats.openapi.document import VERSION_FIELDS
from tools.imports.formats.specs import DocumentRefused, JsonObject, Limits
from tools.imports.formats.texts import truncate

FILES_KEY = "x-portal-files"
MAX_FILES = 1_000
MAX_ENTRIES = 20_000  # of any kind
MAX_UNPACKED_BYTES = 50 * 1024 * 1024
_MAGIC = (b"PK\x03\x04", b"\x1f\x8b")
_SUFFIXES = (".json", ".yaml", ".yml")
_TOO_MANY = f"it holds more than {MAX_ENTRIES:,} entries"


def is_archive(raw: bytes) -> bool:
    return raw.startswith(_MAGIC)


def load_archive(raw: bytes, *, limits: Limits, subject: str) -> LoadedDocument:
    """Read the archive's one document; `subject` begins the sentence of a `DocumentRefused`."""
    try:
        texts = dict(_texts(raw, subject))
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError) as error:
        # RuntimeError: an encrypted entry of a zip.
        raise DocumentRefused(f"{subject} cannot be read as an archive: {error}.") from None
    # One text after the other goes as its values come.
    loaded = {
        name: load_document(texts.pop(name), limits=limits, subject=f"{name} in {subject}")
        for name in list(texts)
    }
    main = _main(loaded, subject)
    warnings = [f"{name}: {warning}" for name, one in loaded.items() for warning in one.warnings]
    files = _Files({name: one.value for name, one in loaded.items()}, main)
    tree = files.one_tree()
    if files.missing:
        shown = ", ".join(f"'{truncate(ref, 100)}'" for ref in sorted(files.missing)[:5])
        warnings.append(f"References that lead to no file of the archive: {len(files.missing):,} ({shown}).")
    return LoadedDocument(tree, tuple(warnings), limits)


def _texts(raw: bytes, subject: str) -> Iterator[tuple[str, bytes]]:
    """The JSON and YAML files by their path in the archive."""
    left, count = MAX_UNPACKED_BYTES, 0
    for name, read in _zipped(raw) if raw.startswith(b"PK") else _tarred(raw):
        path = posixpath.normpath(name.replace("\\", "/")).lstrip("/")
        if path.startswith("..") or not path.lower().endswith(_SUFFIXES) or "__MACOSX" in path:
            continue
        count += 1
        if count > MAX_FILES:
            raise DocumentRefused(f"{subject} has more than {MAX_FILES:,} files.")
        # The size of a file that the archive declares is not trusted.
        text = read.read(left + 1)
        left -= len(text)
        if left < 0:
            raise DocumentRefused(
                f"{subject} unpacks to more than {MAX_UNPACKED_BYTES // 1_048_576} MB, and is not read further."
            )
        yield path, text


def _zipped(raw: bytes) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        if len(archive.infolist()) > MAX_ENTRIES:
            raise zipfile.BadZipFile(_TOO_MANY)
        for entry in archive.infolist():
            if not entry.is_dir():
                with archive.open(entry) as file:
                    yield entry.filename, file


def _tarred(raw: bytes) -> Iterator[tuple[str, IO[bytes]]]:
    # As a stream, so that a bomb is unpacked no further than it is read.
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r|gz") as archive:
        passed = 0
        for number, entry in enumerate(archive):
            if number >= MAX_ENTRIES:
                raise tarfile.ReadError(_TOO_MANY)
            passed += entry.size
            if passed > MAX_UNPACKED_BYTES:
                raise tarfile.ReadError(f"it unpacks to more than {MAX_UNPACKED_BYTES // 1_048_576} MB")
            # Neither links, which could lead outside, nor devices.
            if entry.isreg() and (file := archive.extractfile(entry)) is not None:
                yield entry.name, file


def _main(loaded: dict[str, LoadedDocument], subject: str) -> str:
    """The file that the others belong to: the one that says what it is, nearest to the top."""
    found = [
        name for name, one in loaded.items()
        if isinstance(one.value, dict) and not one.value.keys().isdisjoint(VERSION_FIELDS)
    ]  # fmt: skip
    if not found:
        raise DocumentRefused(
            f"{subject} holds no OpenAPI document: none of its files has 'openapi' or 'swagger'."
        )
    depth = min(name.count("/") for name in found)
    highest = [name for name in found if name.count("/") == depth]
    if len(highest) > 1:
        raise DocumentRefused(
            f"{subject} holds several OpenAPI documents ({', '.join(sorted(highest)[:5])}). Import them one by one."
        )
    return highest[0]


class _Files:
    """The files of one archive, becoming one tree."""

    def __init__(self, values: JsonObject, main: str) -> None:
        self._values, self._main = values, main
        self._moved: set[int] = set()
        self.missing: set[str] = set()

    def one_tree(self) -> JsonObject:
        for name, value in self._values.items():
            self._move(value, name)
        tree: JsonObject = self._values[self._main]
        others = {name: value for name, value in self._values.items() if name != self._main}
        return {**tree, FILES_KEY: others} if others else tree

    def _move(self, value: Any, name: str) -> None:
        """Makes references those of the one tree, in place; depth and size were bounded when the file was loaded."""
        # What an alias of YAML shares is met more than once.
        if not isinstance(value, dict | list) or id(value) in self._moved:
            return
        self._moved.add(id(value))
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key == "$ref" and isinstance(inner, str):
                value[key] = self._reference(inner, name)
            else:
                self._move(inner, name)

    def _reference(self, ref: str, name: str) -> str:
        file, _, pointer = ref.partition("#")
        if "://" in file or file.startswith("//"):
            return ref
        # As the format's parsers do: relative to the file that holds the reference.
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(file))) if file else name
        if target not in self._values:
            self.missing.add(ref)
            return ref
        pointer = pointer.rstrip("/")
        if target == self._main:
            return f"#{pointer}"
        return f"#/{FILES_KEY}/{target.replace('~', '~0').replace('/', '~1')}{pointer}"
