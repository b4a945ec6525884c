"""Gives birth to processes of `manage.py embed_worker` for tests that kill them faster than Python starts.

Each line on stdin is answered by the pid of one more, forked from this process, which has everything imported. They
are processes of the real command; only the start-up is shared. Ends with its stdin, and its children with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def main() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from embeddings.providers import get_provider

    get_provider()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries them
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no orphan works on
            sys.stdin.close()
            call_command("embed_worker")
            os._exit(0)
        print(pid, flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
