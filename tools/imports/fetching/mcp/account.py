"""The account that an MCP server is started as: one that owns nothing, apart from the portal's."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from portal.embedded.account import COMMANDS, system_account
from portal.embedded.spawn import show_below_closed_folders

Account = tuple[int, int]  # user and group
_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2


def prepare_account() -> Account | None:
    """Root starts servers as a system account, and a process that `make up` started as root has that one as its real user
    (portal/embedded/spawn.py). None: only the caller's own can be used. Nothing that this process starts gets more rights."""
    if os.geteuid() == 0:
        os.setgroups([])
        # A server of the portal's own Python, which may lie in a closed folder.
        show_below_closed_folders([str(Path.cwd()), sys.prefix, sys.base_prefix])
        account = system_account(COMMANDS)
    elif os.getuid() != os.geteuid():
        account = os.getuid(), os.getgid()
    else:
        return None  # where `sudo` in the command may still change the user
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _leave_other_processes_alone()
    return account


def _leave_other_processes_alone() -> None:
    """Landlock, where the kernel has it (Linux 6.12): what runs here can neither read nor signal processes from outside, such as
    another tenant's server, which has the same account."""
    libc = ctypes.CDLL(None)
    attributes = struct.pack("QQQ", 0, 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
    rules = libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if rules >= 0:
        libc.syscall(_LANDLOCK_RESTRICT_SELF, rules, 0)
        os.close(rules)


@contextmanager
def acting_as(account: Account | None) -> Iterator[None]:
    """What is made in this block belongs to the account, and what is started in it can enter that."""
    if account is None:
        yield
        return
    user, group = os.geteuid(), os.getegid()
    os.setegid(account[1])
    os.seteuid(account[0])
    try:
        yield
    finally:
        os.seteuid(user)
        os.setegid(group)


@contextmanager
def temporary_home(account: Account | None) -> Iterator[str]:
    """An empty folder of the account, which is deleted afterwards. It lies in one that the account may enter and not list, so that
    the server of another tenant, which has the same account, cannot find it."""
    with tempfile.TemporaryDirectory(prefix="mcp-", ignore_cleanup_errors=True) as closed:
        if account:
            Path(closed).chmod(0o1733)
        with acting_as(account):
            folder = tempfile.mkdtemp(dir=closed)
        try:
            yield folder
        finally:
            with acting_as(account):
                shutil.rmtree(folder, ignore_errors=True)
