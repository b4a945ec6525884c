"""Where measurements go: bench/results/, one JSON file a bench."""

from __future__ import annotations

import json
from typing import Any

from bench.stack import ROOT

FOLDER = ROOT / "bench" / "results"


def write(name: str, results: dict[str, Any]) -> None:
    path = FOLDER / f"{name}.json"
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path.relative_to(ROOT)}")
