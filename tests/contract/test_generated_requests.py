"""S17: requests that schemathesis makes up from our own document, against the running web process.

No answer is a 5xx but for the 502 and 504 that tell of somebody else's server, and each conforms to the document: status, media
type (so every refusal is problem+json), headers and body. `make schemathesis` sends at least 5,000; the quick suite sends two an operation,
the long one twenty.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.stack import Client, Stack, stack
from tests.support.counts import scaled, share_of_full_count
from tests.support.database import real_commits

EXAMPLES = 20
PHASES = "examples,coverage,fuzzing,stateful"
# The coverage of every boundary value and the sequences of requests are thousands, however few the examples.
QUICK_PHASES = "examples,fuzzing"
# Not among them, and why: positive_data_acceptance and negative_data_rejection, since a name may be taken, a text may be
# blank once trimmed, and a word may stand where a list of words is meant; missing_required_header, which does not know 428.
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method", "allow_header_conformance", "ignored_auth",
    "use_after_free",
)  # fmt: skip


@pytest.fixture
def web(django_db_blocker: Any, admin_database: psycopg.Connection[Any]) -> Iterator[Stack]:
    with (
        real_commits(django_db_blocker, admin_database),
        stack(
            is_migrated=True,
            EMBEDDING_PROVIDER="tests.support.embeddings.providers.HashEmbedder",
            LOG_LEVEL="ERROR",
        ) as started,
    ):
        started.start("web")
        yield started


SLUG = "petstore"  # of a source and of a server, which nobody would hit upon
# Two operations ask a stranger's server, and say so where it gives no usable answer; the document names the status there.
CONFIG = f"""
[parameters]
"path.slug" = "{SLUG}"

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "502", "504"]
"""


def generate(web: Stack, key: str, folder: Path, examples: int, phases: str) -> tuple[int, str]:
    """The exit code and what schemathesis says."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"), "run", f"http://127.0.0.1:{web.port}/api/v1/schema",
            "--header", f"Authorization: Bearer {key}", "--max-examples", str(examples), "--seed", "17",
            "--checks", ",".join(CHECKS), "--continue-on-failure", "--suppress-health-check", "all", "--warnings", "off",
            "--request-timeout", "30", "--no-shrink", "--phases", phases,
        ],
        cwd=folder, env={**web.environment, "NO_COLOR": "1", "COLUMNS": "160"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@share_of_full_count()
def test_s17_no_generated_request_makes_a_5xx_and_every_answer_conforms(
    web: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float
) -> None:
    examples = scaled(EXAMPLES * share)
    key = web.new_tenant("generated")
    client = Client(web.port, key)
    made, _ = client.call("POST", "/api/v1/tools", {"tool_id": "send_mail", "name": "Send mail"})
    assert made == 201
    made, _ = client.call("POST", "/api/v1/servers", {"slug": SLUG, "url": "http://127.0.0.1/mcp"})
    assert made == 201
    web.manage("import_openapi", "tools/demo/petstore.yaml", "--tenant", "generated", "--source", SLUG)
    phases = PHASES if share == 1 else QUICK_PHASES
    code, said = generate(web, key, tmp_path, examples, phases)
    assert code == 0, said[-20_000:]
    cases = sum(int(one) for one in re.findall(r"Test cases:\n\s+(\d+) generated", said))
    with capsys.disabled():
        sys.stdout.write(f"\nschemathesis: {cases} cases, all as the document says\n")
    assert cases >= examples * 12, said[-3000:]


@pytest.mark.slow
def test_s17_an_answer_that_the_document_does_not_know_is_noticed(web: Stack, tmp_path: Path) -> None:
    """The same check over a document that promises another answer."""
    key = web.new_tenant("generated")
    status, document = Client(web.port, key).call("GET", "/api/v1/schema")
    assert status == 200
    answer = document["paths"]["/api/v1/me"]["get"]["responses"]["200"]
    answer["content"]["application/json"]["schema"] = {"type": "array"}
    document["paths"] = {"/api/v1/me": document["paths"]["/api/v1/me"]}
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(document))
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"), "run", str(wrong), "--url", f"http://127.0.0.1:{web.port}",
            "--header", f"Authorization: Bearer {key}", "--max-examples", "3", "--checks", ",".join(CHECKS),
        ],
        cwd=tmp_path, env=web.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "schema" in done.stdout
