"""An archive (zip or tar.gz) of a document in several files as one document.

Each file's values are put into the main document under a key of their own, and references from file to file become
references inside that document, so that all that comes after knows one document only. Nothing is written to a disk, and
what a reference names is looked for in the archive alone.
"""

from __future__ import annotations

import io
import posixpath
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from itertools import groupby
from typing import IO, Any
from urllib.parse import unquote

from tools.imports.formats.json_document import LoadedDocument, load_document
from tools.imports.formats.openapi.document import VERSION_FIELDS
from tools.imports.formats.specs import DocumentRefused, JsonObject, JsonValue, Limits, as_object
from tools.imports.formats.texts import truncate

FILES_KEY = "x-portal-files"
MAX_FILES = 1_000  # that references lead to
MAX_ENTRIES = 20_000  # of any kind
MAX_UNPACKED_BYTES = 50 * 1024 * 1024
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_TAR_BLOCK = 512
_SUFFIXES = (".json", ".yaml", ".yml")
_TOO_MANY = f"it holds more than {MAX_ENTRIES:,} entries"
# What marks the main document, somewhere in a file. That it stands at the top is seen when the file is read.
_MARK = re.compile(rb"(?:%s)[\"']?\s*:" % "|".join(VERSION_FIELDS).encode())
_KNOWN_VERSION = re.compile(_MARK.pattern + rb"\s*[\"']?[0-9]")
_FAULTS = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError)


def is_archive(raw: bytes) -> bool:
    return raw.startswith((_ZIP, _GZIP)) or _is_tar(raw)


def load_archive(raw: bytes, *, limits: Limits, subject: str) -> LoadedDocument:
    """Read the archive's one document; `subject` begins the sentence of a `DocumentRefused`."""
    try:
        if raw.startswith(_GZIP) and not _is_tar(zlib.decompressobj(wbits=31).decompress(raw, _TAR_BLOCK)):
            return load_document(_unpacked(raw, limits, subject), limits=limits, subject=subject)
        texts = dict(_texts(raw, subject))
    except _FAULTS as error:
        # RuntimeError: an encrypted entry of a zip.
        raise DocumentRefused(f"{subject} cannot be read as an archive: {error}.") from None
    files = _Files(texts, limits, subject)
    tree = files.one_tree(files.main())
    return LoadedDocument(tree, tuple(files.warnings()), limits)


def _is_tar(raw: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(raw[:_TAR_BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _unpacked(raw: bytes, limits: Limits, subject: str) -> bytes:
    """A document that was packed by itself."""
    unpacker = zlib.decompressobj(wbits=31)
    text = unpacker.decompress(raw, limits.document_bytes + 1)
    if len(text) > limits.document_bytes:
        raise DocumentRefused(
            f"{subject} unpacks to more than {limits.document_bytes:,} bytes, and is not read further."
        )
    if not unpacker.eof:
        raise EOFError("it ends before it is complete")
    return text


def _texts(raw: bytes, subject: str) -> Iterator[tuple[str, bytes]]:
    """The JSON and YAML files by their path in the archive."""
    left = MAX_UNPACKED_BYTES
    for name, read in _zipped(raw) if raw.startswith(_ZIP) else _tarred(raw):
        path = posixpath.normpath(name.replace("\\", "/")).lstrip("/")
        # Macs add a file "._NAME" to every file.
        is_own = "__MACOSX" not in path and not posixpath.basename(path).startswith("._")
        if path.startswith("..") or not path.lower().endswith(_SUFFIXES) or not is_own:
            continue
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
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r|*") as archive:
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


class _Files:
    """The files of one archive, becoming one tree. A file that no reference leads to is not read."""

    def __init__(self, texts: dict[str, bytes], limits: Limits, subject: str) -> None:
        self._texts, self._limits, self._subject = texts, limits, subject
        self._loaded: dict[str, LoadedDocument] = {}
        self._unreadable: dict[str, DocumentRefused] = {}
        self._main = ""
        self._reached: JsonObject = {}  # in the order in which references led to them
        self._moved: set[int] = set()
        self._missing: dict[str, None] = {}
        self._faults: dict[str, str] = {}  # of files that references lead to and that cannot be read

    def main(self) -> str:
        """The file that the others belong to: the one that says what it is, nearest to the top."""
        marked = [name for name, text in self._texts.items() if _MARK.search(text)]
        unreadable: list[DocumentRefused] = []
        for _, level in groupby(sorted(marked, key=_depth), key=_depth):
            found = []
            for name in sorted(level):
                says_version = _KNOWN_VERSION.search(self._texts[name])
                try:
                    value = self._load(name)
                except DocumentRefused as refused:
                    # A template of something else may hold the word as well.
                    unreadable += [refused] if says_version else []
                else:
                    if isinstance(value, dict) and not value.keys().isdisjoint(VERSION_FIELDS):
                        found.append(name)
            if unreadable:
                raise unreadable[0]
            if len(found) > 1:
                raise DocumentRefused(
                    f"{self._subject} holds several OpenAPI documents ({', '.join(found[:5])}). Import them one by one."
                )
            if found:
                return found[0]
        for fault in self._unreadable.values():
            raise fault
        raise DocumentRefused(
            f"{self._subject} holds no OpenAPI document: none of its files has 'openapi' or 'swagger'."
        )

    def one_tree(self, main: str) -> JsonObject:
        self._main = main
        self._reached[main] = tree = as_object(self._load(main))
        names = [main]
        for name in names:  # which grows meanwhile
            self._move(self._reached[name], name)
            names += list(self._reached)[len(names) :]
        others = {name: value for name, value in self._reached.items() if name != main}
        return {**tree, FILES_KEY: others} if others else tree

    def warnings(self) -> Iterator[str]:
        for name in self._reached:
            yield from (f"{name}: {warning}" for warning in self._loaded[name].warnings)
        yield from self._faults.values()
        if self._missing:
            shown = ", ".join(f"'{truncate(ref, 100)}'" for ref in sorted(self._missing)[:5])
            yield f"References that lead to no file of the archive: {len(self._missing):,} ({shown})."

    def _load(self, name: str) -> JsonValue:
        """The values of a file, read once. Raises DocumentRefused."""
        if name in self._unreadable:
            raise self._unreadable[name]
        if name not in self._loaded:
            text, subject = self._texts.pop(name), f"{name} in {self._subject}"
            try:
                self._loaded[name] = load_document(text, limits=self._limits, subject=subject)
            except DocumentRefused as refused:
                self._unreadable[name] = refused
                raise
        return self._loaded[name].value

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
        # As the format's parsers do: relative to the file that holds the reference. Windows writes its paths its own way.
        file = unquote(file).replace("\\", "/")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
        if not any(target in known for known in (self._texts, self._loaded, self._unreadable)):
            self._missing[ref] = None
            return ref
        if target not in self._reached:
            if len(self._reached) >= MAX_FILES:
                raise DocumentRefused(f"{self._subject} has references to more than {MAX_FILES:,} files.")
            try:
                self._reached[target] = self._load(target)
            except DocumentRefused as refused:
                self._faults[target] = str(refused)
                return ref
        pointer = pointer.rstrip("/")
        if target == self._main:
            return f"#{pointer}"
        return f"#/{FILES_KEY}/{target.replace('~', '~0').replace('/', '~1')}{pointer}"


def _depth(name: str) -> int:
    return name.count("/")
