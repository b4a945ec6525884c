"""The embedded services: PostgreSQL with pgvector and Valkey from wheels, under a small supervisor of our own.

- `start(directory)` a set of its own for a test or a bench, ended with the caller;
- `running(root)` the set of a project, shared by all who use it and stopped by the last;
- `ensure()` the same for a command: does nothing where DATABASE_URL names a real server, and ends the command with
  one sentence where the services cannot run.

Nothing here imports Django.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from portal.embedded.errors import ServiceError
from portal.embedded.keeper import running
from portal.embedded.services import Services, start

ROOT = Path(__file__).resolve().parents[2]

__all__ = ["ServiceError", "Services", "ensure", "running", "start"]


@contextmanager
def ensure(root: Path = ROOT) -> Iterator[None]:
    """Services for a command: those that DATABASE_URL names, else the embedded ones of the project at `root`."""
    with ExitStack() as stack:
        if not os.environ.get("DATABASE_URL"):
            try:
                stack.enter_context(running(root))
            except ServiceError as error:
                print(error, file=sys.stderr)
                raise SystemExit(error.exit_code) from None
        yield
