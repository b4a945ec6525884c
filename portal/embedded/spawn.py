"""Becomes another program that cannot outlive the process that started it. Run as a script.

Arguments: the signal (a number) that the program gets when its parent dies, the parent's pid, the numeric user and
group to become (`-` keeps the caller's), then the program and its arguments. It is a program of its own, and not a
`preexec_fn`, because Python code between fork and exec is unsafe where the parent has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(number: int) -> None:
    """Have the kernel send this process signal `number` when the thread that started it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def main() -> None:
    death_signal, parent, user, group = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if user != "-":
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    # After setuid, which clears it.
    die_with_parent(death_signal)
    # The parent may have died before that took effect; the kernel would then send no signal.
    if os.getppid() != parent:
        return
    # Python ignores SIGPIPE, and an ignored signal stays ignored through exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(sys.argv[5], sys.argv[5:])


if __name__ == "__main__":
    main()
