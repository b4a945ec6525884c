"""Looks for known vulnerabilities in the locks, where PyPI's data can be reached: `make audit`.

Behind a mirror that has the packages and not their vulnerabilities, pip-audit skips every package and calls that clean. So a release
that is known to have some is asked for first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

KNOWN = "https://pypi.org/pypi/django/4.2.1/json"
SECONDS = 20
LOCKS = sorted(Path(__file__).resolve().parent.parent.glob("requirements/*.txt"))


def has_data() -> bool:
    """Whether the vulnerabilities of a release that has some can be read."""
    try:
        with urllib.request.urlopen(KNOWN, timeout=SECONDS) as answer:
            return bool(json.load(answer).get("vulnerabilities"))
    except (OSError, ValueError):
        return False


def main() -> int:
    """0 without a finding or without data, which is said; 1 with one."""
    if not has_data():
        print("Nothing was audited: the vulnerability data of pypi.org cannot be reached from here.")
        return 0
    failed = 0
    for lock in LOCKS:
        print(f"{lock.name}:", flush=True)
        # torch.txt has packages without a hash.
        hashes = "--no-deps" if lock.name == "torch.txt" else "--require-hashes"
        command = [
            sys.executable,
            "-m",
            "pip_audit",
            "--strict",
            "--disable-pip",
            hashes,
            "--requirement",
            str(lock),
        ]
        failed |= subprocess.run(command, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
