"""Becomes another program that cannot outlive the process that started it. Run as a script.

Arguments: the signal (a number) that the program gets when its parent dies, the parent's pid, the numeric user and
group to become (`-` keeps the caller's), the real user and group, then the program and its arguments. It is a program of
its own, and not a `preexec_fn`, because Python code between fork and exec is unsafe where the parent has threads.

A process without root can start another as the user that is its real one (tools/imports/fetching/mcp/account.py). Where
that differs from its effective user, the system forgets the signal at exec, and so a Python module is run here, without one.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18


def die_with_parent(number: int) -> None:
    """Have the kernel send this process signal `number` when the thread that started it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def hide_from_own_user() -> None:
    """Closes this process's environment and memory (/proc) to other processes of its user, such as a command that it starts."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def show_below_closed_folders(paths: list[str]) -> None:
    """Opens the way to folders that lie below closed ones, such as a project or a Python in /root: for this process and its
    children alone, an empty folder that holds nothing but these lies over the closed one. Does nothing where root may not mount."""
    closed: dict[str, list[str]] = {}
    for path in paths:
        if (top := _closed_folder_above(path)) and path not in closed.setdefault(top, []):
            closed[top].append(path)
    libc = ctypes.CDLL(None)
    # Private first: what is mounted must not appear in the namespace of others.
    if not closed or libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        return
    umask = os.umask(0o022)
    for top, inner in closed.items():
        opened = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in inner}
        libc.mount(b"tmpfs", os.fsencode(top), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755,size=1m")
        for path, folder in opened.items():
            Path(path).mkdir(parents=True, exist_ok=True)
            libc.mount(f"/proc/self/fd/{folder}".encode(), os.fsencode(path), None, MS_BIND | MS_REC, None)
            os.close(folder)
    os.umask(umask)


def _closed_folder_above(path: str) -> str:
    """The topmost folder above `path` that others may not enter, or ""."""
    parts = path.split("/")[1:-1]
    above = ["/" + "/".join(parts[: n + 1]) for n in range(len(parts))]
    return next((folder for folder in above if not Path(folder).stat().st_mode & 0o001), "")


def main() -> None:
    death_signal, parent, user, group, real_user, real_group = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        *sys.argv[3:7],
    )
    if user != real_user:
        folder = str(Path.cwd())
        given = [folder, sys.prefix, sys.base_prefix]
        show_below_closed_folders([*given, *map(os.path.realpath, given)])
        os.chdir(folder)  # as it is there now
    if user != "-":
        os.setgroups([])
        os.setresgid(int(real_group), int(group), int(group))
        os.setresuid(int(real_user), int(user), int(user))
    # After setuid, which clears it.
    die_with_parent(death_signal)
    # The parent may have died before that took effect; the kernel would then send no signal.
    if os.getppid() != parent:
        return
    if user != real_user:
        hide_from_own_user()
        sys.argv = sys.argv[9:]  # without the interpreter and its -m
        sys.path[0] = folder  # as -m has it
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return
    # Python ignores SIGPIPE, and an ignored signal stays ignored through exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(sys.argv[7], sys.argv[7:])


if __name__ == "__main__":
    main()
