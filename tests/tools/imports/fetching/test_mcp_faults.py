"""SYN-2, S15: what servers do to an import that asks them: endless, huge and odd answers, refusals, secrets repeated (cases 21, 23,
25, 33). None of it takes longer or more memory than it may."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from portal.outbound.errors import UNREACHABLE, FetchError
from tests.support.imports.parsing import parse_mcp_tools
from tests.support.servers import mcp_servers
from tests.support.servers.mcp_http_server import answering, event, result
from tests.support.servers.mcp_servers import names, needs_badserver, over_http, plain
from tools.imports.fetching.http import fetch_document
from tools.imports.fetching.mcp.client import list_tools_from_command, list_tools_from_url
from tools.imports.fetching.mcp.conversation import strip_lone_surrogates

# What is said between child and server; test_mcp_processes.py is about the child.
pytestmark = pytest.mark.usefixtures("forked_children")
SECRET = "s3cret-v4lue-of-a-key"


@pytest.fixture
def server(settings: Any, tmp_path: Path) -> Any:
    """Allows one command, and says what came of asking it: names and warnings, or the sentence of its refusal."""
    settings.MCP_SECONDS = 10

    def ask(command: list[str], **entry: Any) -> Any:
        mcp_servers.allow(settings, tmp_path, it={"command": command, **entry})
        try:
            found = list_tools_from_command("it", "default")
        except FetchError as refused:
            return str(refused)
        return names(found), list(found.warnings)

    return ask


def asked_over_http(settings: Any, answer: Any, **options: Any) -> Any:
    settings.MCP_SECONDS = 10
    with answering(settings, answer, **options) as server:
        try:
            found = list_tools_from_url(server.url, {"Authorization": f"Bearer {SECRET}"})
        except FetchError as refused:
            return str(refused)
        return names(found), list(found.warnings)


# --- Odd lists ------------------------------------------------------------------------------------------------------
ODD = r'{"tools": [{"name": "no_schema"}, {"name": "half \ud83d of a pair"}, {"name": "whole \ud83d\ude00"}, {"name": "good"}]}'


@pytest.mark.parametrize("way", [result, event])
def test_an_odd_tool_does_not_hide_the_rest_of_a_live_list_SYN_2(
    server: Any, settings: Any, way: Any
) -> None:
    """The keys are those that the same list has when it is pasted."""
    pasted = [endpoint.name for endpoint in parse_mcp_tools(ODD.encode()).endpoints]
    assert len(pasted) == 4
    assert asked_over_http(settings, way(ODD)) == (pasted, [])
    if way is result:
        assert server(plain(repr(json.loads(ODD)))) == (pasted, [])


@pytest.mark.parametrize("way", [result, event])
def test_case_71_one_deep_schema_does_not_hide_a_live_list_SYN_2(
    server: Any, settings: Any, way: Any
) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(35):
        schema = {"type": "object", "properties": {"a": schema}}
    answer = {"tools": [{"name": "a"}, {"name": "deep", "inputSchema": schema}, {"name": "b"}]}
    listed = asked_over_http(settings, way(json.dumps(answer)))
    assert listed == (["a", "deep", "b"], [])
    assert server(plain(repr(answer))) == (["a", "deep", "b"], [])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"a\ud83d", b"a"),
        (rb"\udc00\ud83d\ude00\ud83d", rb"\ud83d\ude00"),
        (rb"\\ud83d", rb"\\ud83d"),
        (rb"\\\ud83d", rb"\\"),
        (rb"\uD83D\n", rb"\n"),
        (rb"\u00e9", rb"\u00e9"),
    ],
)
def test_half_a_surrogate_pair_is_left_out_and_nothing_else_SYN_2(written: bytes, read: bytes) -> None:
    assert strip_lone_surrogates(written) == read


@pytest.mark.parametrize(
    ("value", "why"), [("9" * 5000, "number out of range"), ("[" * 5000 + "]" * 5000, "recursion limit")]
)
def test_an_answer_that_cannot_be_read_ends_the_import_at_once_SYN_2(
    server: Any, settings: Any, value: str, why: str
) -> None:
    odd = plain('{"tools": [], "x": "@"}')[2].replace('"@"', "WHAT").replace("WHAT", '"@"')
    odd = odd.replace("print(json.dumps(", f"print((lambda t: json.dumps(t).replace('\"@\"', {value!r}))(")
    settings.MCP_SECONDS = 40
    begun = time.monotonic()
    assert why in server([sys.executable, "-c", odd])
    assert time.monotonic() - begun < 20


def test_a_first_answer_that_is_none_is_told_as_such_SYN_2(server: Any) -> None:
    odd = plain("{}")[2].replace('"serverInfo"', '"server"').replace('"protocolVersion"', '"version"', 1)
    assert server([sys.executable, "-c", odd]) == "The server's first answer is not one that MCP knows."


def test_case_21_a_list_that_never_ends_is_given_up_SYN_2(server: Any) -> None:
    again = '{"tools": [], "nextCursor": "again"}'
    assert "The list does not end" in server(plain(again))
    endless = '{"tools": [], "nextCursor": str(asked["id"])}'
    assert server(plain(endless)) == "The list has more than 500 pages."


def test_case_33_a_list_that_changes_between_two_pages_is_read_anew_SYN_2(server: Any) -> None:
    """The list changes after the first page was sent: old first page and new second one would be a mix."""
    page = """(
        n := globals().get("n", 0) + 1,
        n == CHANGED and send({"method": "notifications/tools/list_changed"}),
        version := "new" if n >= CHANGED else "old",
        {"tools": [{"name": version + "2"}]} if "cursor" in asked.get("params", {})
        else {"tools": [{"name": version + "1"}], "nextCursor": "2"},
    )[-1]"""
    assert server(plain(page.replace("CHANGED", "2"))) == (["new1", "new2"], [])
    always = page.replace("n == CHANGED and ", "").replace("CHANGED", "2")
    assert "changed each time" in server(plain(always))


# --- Size, time and memory ------------------------------------------------------------------------------------------
TOO_LARGE = f"The server's answer is larger than {settings.DOCUMENT_MAX_BYTES // 1_000_000} MB."


@pytest.mark.parametrize("way", [result, event])
def test_an_answer_that_is_too_large_ends_by_its_size_over_http_SYN_2(settings: Any, way: Any) -> None:
    assert asked_over_http(settings, way('{"tools": [], "x": "%s"}' % ("x" * 25_000_000))) == TOO_LARGE


def test_chatter_without_end_ends_by_its_size_SYN_2(server: Any) -> None:
    assert server([sys.executable, "-c", "while True: print('x' * 2000)"]) == TOO_LARGE


def test_a_line_of_190_mb_ends_by_its_size_in_little_memory_and_time_SYN_2() -> None:
    """Asked in a process of its own, which knows the most that any child of it took."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'tools.imports.fetching.mcp.session'], input=sys.argv[1].encode())\n"
        "print('', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, sep='\\n')"
    )
    # The server writes piece by piece, so that the most is not its own.
    huge = plain("0", before="import sys\nfor _ in range(1900): sys.stdout.write('x' * 100_000)\n")
    asked = {
        "command": huge,
        "headers": {},
        "environment": {},
        "seconds": 60,
        "max_bytes": 20_000_000,
        "allowed_hosts": [],
        "unreachable": "",
    }
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(asked)], capture_output=True, text=True, check=True
    )
    said, megabytes = done.stdout.splitlines()
    assert said == TOO_LARGE
    assert int(megabytes) < 200
    assert time.monotonic() - begun < 30


def test_a_compressed_answer_is_not_unpacked_SEC_2(settings: Any) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    said = asked_over_http(settings, lambda handler, number: handler.say(bomb, Content_Encoding="gzip"))
    assert said == "The server compressed its answer, although it was asked not to."


def test_a_server_that_starts_slowly_is_waited_for_SYN_2(server: Any) -> None:
    assert server(plain('{"tools": [{"name": "late"}]}', before="import time; time.sleep(1.5)\n")) == (
        ["late"],
        [],
    )


def test_what_a_server_writes_to_its_standard_error_fills_nothing_SYN_2(server: Any, settings: Any) -> None:
    settings.MCP_SECONDS = 2
    said = server([sys.executable, "-c", "import sys\nwhile True: sys.stderr.write('still here\\n' * 1000)"])
    assert said.startswith("The server did not answer within 2 s. Its last words: ")
    assert len(said) < 500


# --- Chatter --------------------------------------------------------------------------------------------------------
def test_case_23_an_answer_is_read_behind_chatter_on_its_own_line_SYN_2(server: Any) -> None:
    noisy = plain(
        '{"tools": [{"name": "a"}]}', before="import sys; sys.stdout.write('\\x1b[32mLoading... ')\n"
    )
    assert server(noisy) == (
        ["a"], ["The server wrote 1 other lines among its answers; the first: [32mLoading..."],
    )  # fmt: skip


# --- Refusals over HTTP -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda handler, number: handler.say(b"", status=500), "The server answered 500 instead of the list."),
        (
            lambda handler, number: handler.say(b"no", status=401, kind="text/plain"),
            "The server answered 401 instead of the list. Check the headers that it is sent.",
        ),
        (lambda handler, number: handler.say(b"", status=404), "The server answered 404 instead of the list."),
        (lambda handler, number: handler.say(b"<html>", kind="text/html"), "Unexpected content type: text/html"),
        (lambda handler, number: handler.say(b"{"), "it is no JSON that can be read"),
        (lambda handler, number: handler.say(b"", status=202), "answered a request with 202 Accepted"),
        (lambda handler, number: handler.say(b": nothing\n\n", kind="text/event-stream"), "ended before it had answered"),
        (lambda handler, number: handler.connection.shutdown(socket.SHUT_RDWR), "was reached, and its answer broke off"),
        (lambda handler, number: handler.say(b"{", Content_Length="1000") or handler.connection.shutdown(socket.SHUT_RDWR), "was reached, and its answer broke off"),
        (
            lambda handler, number: handler.say(b"", status=307, Location="http://127.0.0.1:9/mcp"),
            "Redirect to http://127.0.0.1:9/mcp not followed",
        ),
    ],
    ids=["500", "401", "404", "html", "half", "202", "no-event", "closed", "broken off", "redirect"],
)  # fmt: skip
def test_case_25_a_refusal_over_http_is_told_as_what_it_was_SYN_2(
    settings: Any, answer: Any, said: str
) -> None:
    assert said in asked_over_http(settings, answer)


def test_case_25_a_refusal_of_the_first_question_is_told_too_SYN_2(settings: Any) -> None:
    said = asked_over_http(
        settings, lambda handler, number: handler.say(b"", status=403), from_the_start=True
    )
    assert said == "The server answered 403 instead of the list. Check the headers that it is sent."


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("initialize", "The server refused: No workspace is open (-32000)."),
        ("tools/list", "The list was answered with an error: No workspace is open (-32000)."),
    ],
)
def test_a_servers_error_with_the_sdks_code_for_an_end_is_told_in_its_words_SYN_2(
    server: Any, settings: Any, question: str, said: str
) -> None:
    error = '"error": {"code": -32000, "message": "No workspace is open"}'
    answer = '{"jsonrpc": "2.0", "id": %d, ' + error + "}"
    assert said == asked_over_http(
        settings,
        lambda handler, number: handler.say((answer % number).encode()),
        from_the_start=question == "initialize",
    )
    command, option, program = plain("None")
    when = "True" if question == "initialize" else "result is None"
    program = program.replace('"result": result}', f'**({{{error}}} if {when} else {{"result": result}})}}')
    assert server([command, option, program]) == said


@needs_badserver
@pytest.mark.parametrize(
    ("mode", "said"),
    [("crash", "The server answered 500 instead of the list."), ("diemidlist", "The server was reached, and its answer broke off before the end.")],
)  # fmt: skip
def test_case_25_a_server_over_http_that_dies_SYN_2(settings: Any, mode: str, said: str) -> None:
    settings.MCP_SECONDS = 10
    with over_http(mode, settings) as url, pytest.raises(FetchError) as refused:
        list_tools_from_url(url)
    assert str(refused.value) == said


def test_a_server_without_a_good_certificate_is_told_as_tls_SEC_2(settings: Any) -> None:
    """Of this one nothing is encrypted at all; a certificate that nobody knows fails at the same place."""
    settings.MCP_SECONDS = 10
    with answering(settings, result("{}")) as server, pytest.raises(FetchError) as refused:
        list_tools_from_url(server.url.replace("http:", "https:"))
    assert str(refused.value) == "The server was reached, and no secure connection to it could be made (TLS)."


def test_a_closed_port_is_like_a_forbidden_one_but_of_a_server_that_the_installation_names_SEC_2(
    settings: Any,
) -> None:
    port = mcp_servers.free_port()
    named = f"127.0.0.1 refused the connection: nothing listens at its port {port}."
    for allowed, said in (([], UNREACHABLE), ([f"127.0.0.1:{port}"], named)):
        settings.IMPORT_ALLOWED_HOSTS = allowed
        for ask in (list_tools_from_url, fetch_document):
            with pytest.raises(FetchError) as refused:
                ask(f"http://127.0.0.1:{port}/mcp")
            assert str(refused.value) == said


def test_a_named_server_without_an_address_is_told_so_SEC_2(settings: Any) -> None:
    settings.IMPORT_ALLOWED_HOSTS = ["inside.invalid:8080"]
    for ask in (list_tools_from_url, fetch_document):
        with pytest.raises(FetchError) as refused:
            ask("http://inside.invalid:8080/mcp")
        assert str(refused.value) == "The name inside.invalid is not known here."


def test_the_refusal_of_an_internal_address_names_the_setting_that_allows_it_SEC_2(settings: Any) -> None:
    with pytest.raises(FetchError, match="IMPORT_ALLOWED_HOSTS"):
        fetch_document("http://10.0.0.1/openapi.json")


# --- Secrets --------------------------------------------------------------------------------------------------------
def test_a_header_is_sent_and_what_the_server_repeats_of_it_is_masked_S15(settings: Any) -> None:
    repeated = json.dumps({"tools": [{"name": "a", "description": f"Uses {SECRET} of 'Bearer {SECRET}'."}]})
    with answering(settings, result(repeated)) as server:
        found = list_tools_from_url(server.url, {"Authorization": f"Bearer {SECRET}"})
        assert {headers["Authorization"] for _, headers in server.seen} == {f"Bearer {SECRET}"}
    assert SECRET.encode() not in found.raw
    assert b"Uses *** of '***'." in found.raw
    assert found.warnings == (
        "The server repeated a secret that it was given in its list; *** stands there instead.",
    )


def test_an_error_that_repeats_a_header_is_masked_S15(settings: Any) -> None:
    error = {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32001, "message": "x" * 290 + f" bad key {SECRET}"},
    }
    for status in (200, 400):
        said = asked_over_http(
            settings, lambda handler, number, status=status: handler.say(
                json.dumps({**error, "id": number}).encode(), status=status)
        )  # fmt: skip
        assert SECRET[:8] not in said


def test_whatever_a_command_repeats_of_its_environment_is_masked_S15(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In messages all of it; in the list what is called a secret, since a time zone may well be part of a tool's text."""
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    monkeypatch.setenv("SHOP_ZONE", "Europe/Berlin")
    entry = {"environment": ["SHOP_TOKEN", "SHOP_ZONE"]}
    chatty = "import os\nprint('starting with', os.environ['SHOP_TOKEN'], os.environ['SHOP_ZONE'])\n"
    found = server(
        plain('{"tools": [{"name": os.environ["SHOP_TOKEN"]}, {"name": os.environ["SHOP_ZONE"]}]}', chatty),
        **entry,
    )
    assert found[0] == ["***", "Europe/Berlin"]
    assert found[1][0].endswith("the first: starting with *** ***")
    # Last words are cut after they were masked: half a secret is one too.
    dying = "import os, sys; sys.exit('x' * 390 + os.environ['SHOP_TOKEN'])"
    assert SECRET[:6] not in server([sys.executable, "-c", dying], **entry)
