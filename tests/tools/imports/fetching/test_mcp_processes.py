"""SYN-2, case 25: whatever becomes of an import from an MCP server, no process, no zombie and no open file is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from portal.outbound.errors import FetchError
from tests.support.servers import mcp_servers
from tests.support.servers.mcp_servers import bad, children, names, needs_badserver, open_files, running, soon
from tools.imports.fetching.mcp.client import list_tools_from_command

FAILING = ("hang", "crash", "diemidlist", "noop", "weirdproto")


@needs_badserver
@pytest.mark.parametrize(
    "times", [pytest.param(1, id="five"), pytest.param(4, id="twenty", marks=pytest.mark.slow)]
)
def test_case_25_tries_leave_no_process_no_zombie_and_no_open_file_SYN_2(
    settings: Any, tmp_path: Path, times: int
) -> None:
    mark = f"mark-{tmp_path.name}"
    mcp_servers.allow(settings, tmp_path, **{mode: [*bad(mode), mark] for mode in FAILING})
    settings.MCP_SECONDS = 4

    def try_once(mode: str) -> bool:
        try:
            return names(list_tools_from_command(mode, "default")) == []
        except FetchError:
            return True

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(len, FAILING))  # its threads are there
        before = (children(), open_files())
        assert all(pool.map(try_once, FAILING * times))
        assert running(mark) == []
        assert (children(), open_files()) == before


def _stubborn(mark: str) -> list[str]:
    """Does not end when told to, and starts one process that stays in its group and one that leaves it."""
    sleep = f"[sys.executable, '-c', 'import time; time.sleep(600)', {mark!r}]"
    code = (
        "import signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen({sleep})\nsubprocess.Popen({sleep}, start_new_session=True)\ntime.sleep(600)"
    )
    return [sys.executable, "-c", code, mark]


def test_case_25_a_server_that_does_not_end_is_ended_with_all_that_it_started_SYN_2(
    settings: Any, tmp_path: Path
) -> None:
    mark = f"mark-{tmp_path.name}"
    mcp_servers.allow(settings, tmp_path, it=_stubborn(mark))
    settings.MCP_SECONDS = 1
    with pytest.raises(FetchError, match="did not answer within 1 s"):
        list_tools_from_command("it", "default")
    assert soon(lambda: running(mark), 1) == []


def test_case_25_a_server_does_not_outlive_a_portal_that_is_killed_SYN_2(
    settings: Any, tmp_path: Path
) -> None:
    mark = f"mark-{tmp_path.name}"
    asked = {
        "command": _stubborn(mark),
        "headers": {},
        "environment": {},
        "seconds": 60,
        "max_bytes": 20_000_000,
        "allowed_hosts": [],
        "unreachable": "",
    }
    code = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'tools.imports.fetching.mcp.session'], input=sys.argv[1].encode(), stdout=-3)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(asked)], stderr=subprocess.DEVNULL, start_new_session=True
    ) as portal:
        assert (
            soon(lambda: not len(running(mark)) >= 4, 15) is False
        )  # portal's question, server, and its two
        os.kill(portal.pid, signal.SIGKILL)
    assert soon(lambda: running(mark), 15) == []


def test_s11_a_server_has_bounds_of_memory_and_files_and_an_empty_folder(
    settings: Any, tmp_path: Path
) -> None:
    code = (
        "import os, resource as r, sys\n"
        "print(os.listdir(), *(r.getrlimit(x)[1] for x in (r.RLIMIT_DATA, r.RLIMIT_FSIZE, r.RLIMIT_CORE)), file=sys.stderr)"
    )
    mcp_servers.allow(settings, tmp_path, it=[sys.executable, "-c", code])
    with pytest.raises(FetchError, match=r"\[\] 4000000000 1000000000 0$"):
        list_tools_from_command("it", "default")


def test_case_72_a_server_that_ends_while_its_helper_holds_the_output_is_told_at_once_SYN_2(
    settings: Any, tmp_path: Path
) -> None:
    mark = f"mark-{tmp_path.name}"
    code = "import sys; print('no configuration', file=sys.stderr); sys.exit(7)"
    helper = f"{sys.executable} -c 'import time; time.sleep(300)' {mark} &"
    mcp_servers.allow(settings, tmp_path, it=["sh", "-c", f'{helper} exec {sys.executable} -c "{code}"'])
    begun = time.monotonic()
    with pytest.raises(FetchError) as refused:
        list_tools_from_command("it", "default")
    assert time.monotonic() - begun < 6  # of which starting two interpreters takes the most
    assert str(refused.value) == (
        "The server ended before it had answered (exit status 7). Its last words: no configuration"
    )
    assert soon(lambda: running(mark), 1) == []


def test_case_72_an_answer_of_a_server_that_ends_right_after_it_is_taken_SYN_2(
    settings: Any, tmp_path: Path
) -> None:
    tools = "{'tools': [{'name': f'tool_{n}', 'description': 'd' * 2000} for n in range(2000)]}"
    last = mcp_servers.plain(tools)
    last[2] += "    if asked['method'] == 'tools/list': break\n"
    mcp_servers.allow(settings, tmp_path, it=last)
    assert len(names(list_tools_from_command("it", "default"))) == 2000
