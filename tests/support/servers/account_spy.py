"""A process that says what it is and what it can read, itself and as an MCP server that it starts. Run as `python -m`, by the supervisor;
its arguments are the server's command as JSON, then the files."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

import pytest

needs_landlock = pytest.mark.skipif(
    ctypes.CDLL(None).syscall(444, None, 0, 1) < 6, reason="the kernel has no Landlock for processes"
)
# A server whose only tool's description says what it could see of itself, of its ancestors, and of the files that are its arguments.
SPY = """
import json, os, sys
def read(path):
    try:
        with open(path, "rb") as file: return len(file.read(1)) > 0
    except OSError as error: return type(error).__name__
def beside():
    try: return os.listdir("..")
    except OSError as error: return type(error).__name__
parent, ancestors = os.getppid(), []
while parent > 1 and len(ancestors) < 20:
    ancestors.append(parent)
    parent = int(open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[1])
status = open("/proc/self/status").read()
found = json.dumps({
    "user": os.getresuid(), "group": os.getresgid(), "groups": os.getgroups(), "home": os.environ["HOME"] == os.getcwd(),
    "empty": os.listdir("."), "beside": beside(), "environment": sorted(os.environ), "files": {path: read(path) for path in sys.argv[1:]},
    "environ": {str(one): read(f"/proc/{one}/environ") for one in ancestors},
    "memory": {str(one): read(f"/proc/{one}/mem") for one in ancestors}, "privileges": "NoNewPrivs:\\t1" in status,
})
"""
ANSWER = '{"tools": [{"name": "spy", "description": found}]}'
PR_GET_PDEATHSIG = 2


def main() -> None:
    signal = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(signal), 0, 0, 0)
    asked = {
        "command": json.loads(sys.argv[1]), "headers": {}, "environment": {}, "seconds": 20, "max_bytes": 1_000_000, "allowed_hosts": [],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tools.imports.fetching.mcp.session"],
        input=json.dumps(asked).encode(), stdout=subprocess.PIPE, check=False, env={"PATH": os.defpath},
    )  # fmt: skip
    _, _, listed = done.stdout.partition(b"\n")
    found = {
        "user": os.getresuid(), "groups": os.getgroups(), "ends_with_parent": bool(signal.value), "home": os.environ["HOME"],
        "logins": sorted(name for name in os.environ if name.startswith("DATABASE_")), "role": os.environ["PORTAL_DB_ROLE"],
        "files": {path: os.access(path, os.R_OK, effective_ids=True) for path in sys.argv[2:]}, "secret": os.environ.get("SECRET_KEY"),
        "server": json.loads(json.loads(listed)["pages"][0]["tools"][0]["description"]) if listed else done.stdout.decode(),
    }  # fmt: skip
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
