"""Processes of the product: where they run, and in which environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def process_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process of the product: this worker's servers, and no role forced on it."""
    environment = {**os.environ, **(extra or {})}
    environment.pop("PORTAL_DB_ROLE", None)
    return environment


def manage(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Runs a command as `manage.py` does; raises with its stderr if it fails."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env=process_environment(env), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"manage.py {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout
