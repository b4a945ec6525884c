"""`make test` has no torch, and leaves this folder to `make test-torch`."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["test_runtimes.py"]
