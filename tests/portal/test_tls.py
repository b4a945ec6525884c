"""S14, S18: behind TLS one setting gives cookies, HSTS and redirects what they need, and Django's own check finds nothing."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from typing import Any

from tests.support.processes import ROOT, process_environment

# The settings are read once a process, so each question has one of its own.
ASK = """
import json, os, sys
import django
django.setup()
from django.test import Client
answers = []
for path, proto in json.loads(sys.argv[1]):
    answer = Client(HTTP_HOST="localhost", HTTP_X_FORWARDED_PROTO=proto).get(path)
    cookies = [one.OutputString() for one in answer.cookies.values()]
    answers.append([answer.status_code, dict(answer.items()), cookies])
print(json.dumps(answers))
"""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment |= {"PORTAL_DB_ROLE": "app", "DJANGO_SETTINGS_MODULE": "portal.settings"}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env={**process_environment(), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def answers(*asked: tuple[str, str], **environment: str) -> Any:
    done = run("-c", ASK, json.dumps(asked), **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_behind_tls_cookies_are_bound_to_the_host_and_browsers_stay_with_https_S14() -> None:
    page = "/login/"
    (status, headers, cookies), (plain_status, plain, _), (live, _, _) = answers(
        (page, "https"), (page, "http"), ("/livez", "http"), BEHIND_TLS="1", TRUSTED_PROXIES="10.0.0.7"
    )
    assert status == 200
    assert headers["Strict-Transport-Security"] == "max-age=31536000"
    assert headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert cookies
    for cookie in cookies:
        assert cookie.startswith("__Host-"), cookie
        assert "Secure" in cookie, cookie
        assert "Path=/;" in cookie, cookie
        assert "Domain" not in cookie, cookie
    assert (plain_status, plain["Location"]) == (301, f"https://localhost{page}")
    assert live == 200


def test_without_tls_nothing_is_promised_and_a_header_of_the_client_changes_nothing_S14() -> None:
    [(status, headers, cookies)] = answers(("/login/", "https"))
    assert status == 200
    assert "Strict-Transport-Security" not in headers
    assert headers["X-Frame-Options"] == "DENY"
    assert not any("Secure" in cookie for cookie in cookies)


def test_tls_without_the_proxy_that_ends_it_is_refused_S14() -> None:
    done = run("-m", "django", "check", BEHIND_TLS="1")
    assert done.returncode != 0
    assert "BEHIND_TLS needs TRUSTED_PROXIES" in done.stderr


def test_the_setting_of_before_is_refused_with_the_name_of_its_successor_S14() -> None:
    done = run("-m", "django", "check", COOKIES_SECURE="1")
    assert done.returncode != 0
    assert "COOKIES_SECURE is no longer read. Set BEHIND_TLS instead" in done.stderr


def test_djangos_check_of_a_deployment_finds_nothing_S18() -> None:
    key = secrets.token_urlsafe(48)
    check = ("-m", "django", "check", "--deploy", "--fail-level", "WARNING")
    done = run(*check, BEHIND_TLS="1", TRUSTED_PROXIES="10.0.0.7", SECRET_KEY=key)
    assert (done.returncode, done.stderr) == (0, "")
    assert "security.W" in run(*check, SECRET_KEY=key).stderr, "the check judges nothing"
    assert "make check-deploy" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_an_audit_without_data_says_that_nothing_was_audited_S18() -> None:
    nobody = "http://127.0.0.1:9"
    done = run(".ci/audit.py", HTTPS_PROXY=nobody, https_proxy=nobody, NO_PROXY="", no_proxy="")
    assert (done.returncode, done.stdout) == (
        0,
        "Nothing was audited: the vulnerability data of pypi.org cannot be reached from here.\n",
    )
