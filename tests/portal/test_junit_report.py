"""OPS-2: the suite's results come as JUnit's XML for a CI that asks for it, with the figures that tests have measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

MEASURED = "a figure for the report: 1 ms"


def test_a_figure_is_noted(figure: Callable[[str], None]) -> None:
    """The next test runs this one."""
    figure(MEASURED)


def test_junitxml_reports_a_run_with_its_figures_OPS_2(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    # A database of its own: tests/plugin.py takes the name of the worker for it.
    environment = {**os.environ, "PYTEST_XDIST_WORKER": "report"}
    run = subprocess.run(
        [*command, f"{__file__}::{test_a_figure_is_noted.__name__}"],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    # The file was written by pytest a moment ago.
    [suite] = ET.parse(report).getroot()  # noqa: S314
    assert {name: suite.get(name) for name in ("tests", "errors", "failures")} == {
        "tests": "1",
        "errors": "0",
        "failures": "0",
    }
    assert [one.get("value") for one in suite.iter("property")] == [MEASURED]
