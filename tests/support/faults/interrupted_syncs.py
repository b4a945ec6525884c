"""Syncs that die at a chosen moment: the process that is killed at a statement, or what it takes to lose a connection there."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from tests.support.imports.syncs import parse_here
from tools.imports.fetching import sandbox
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.service import import_document


def write(tenant_id: UUID, raw: bytes, sync_id: UUID | None, *, confirm: bool = True) -> Any:
    """Imports the document, or applies the plan of it."""
    if sync_id is not None:
        return syncs.apply_sync(
            tenant_id=tenant_id, sync_id=sync_id, actor="importer", confirm_removals=confirm
        )
    return import_document(IncomingDocument(raw=raw, name="shop.json", slug="shop"), tenant_id=tenant_id, actor="importer", confirm_removals=confirm)  # fmt: skip


@contextmanager
def at_moment(number: int, do: Callable[[], object]) -> Iterator[None]:
    """Does it before the statement, or the COMMIT, of that number."""
    left = number

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == -1:
                do()
            return real(*arguments, **options)

        return call

    with (
        mock.patch.object(CursorWrapper, "execute", counted(CursorWrapper.execute)),
        mock.patch.object(BaseDatabaseWrapper, "_commit", counted(BaseDatabaseWrapper._commit)),
    ):
        yield


def write_and_die(tenant_id: UUID, raw: bytes, sync_id: UUID | None, moment: int) -> None:
    """What a process does that is killed in the middle of a sync, or at its end if the moment is a later one."""
    sandbox.parse = parse_here
    with at_moment(moment, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        write(tenant_id, raw, sync_id)
    os.kill(os.getpid(), signal.SIGKILL)


# Each is forked from a process that has everything imported, and neither a thread nor a connection.
children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["portal.wsgi", __name__])
