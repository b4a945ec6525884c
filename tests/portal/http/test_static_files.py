"""Static files: kept for ever under the digest of their content, compressed, and still there under their plain names."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from django.templatetags.static import static
from django.test import Client

ROOT = Path(__file__).resolve().parents[3]
GZIP = {"Accept-Encoding": "gzip, deflate, br"}
MOST = 150_000  # bytes of a first page with everything that it needs


def content(answer: object) -> bytes:
    return answer.getvalue() if getattr(answer, "streaming", False) else answer.content  # type: ignore[attr-defined]


def test_a_first_page_is_small_and_all_that_it_needs_may_be_kept_for_ever(
    db: None, anonymous_client: Client
) -> None:
    html = anonymous_client.get("/login/").content.decode()
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', html)
    assert len(addresses) >= 6
    size = len(html.encode())
    for address in addresses:
        answer = anonymous_client.get(address, headers=GZIP)
        assert answer.status_code == 200, address
        assert answer["Cache-Control"] == "max-age=31536000, public, immutable", address
        assert answer["Content-Encoding"] == "gzip"
        assert answer["Vary"] == "Accept-Encoding"
        assert int(answer["Content-Length"]) == len(answer.content)
        size += len(answer.content)
    assert size <= MOST


def test_a_compressed_file_is_the_file_and_its_digest_follows_its_content(anonymous_client: Client) -> None:
    raw = (ROOT / "static" / "portal" / "portal.css").read_bytes()
    address = static("portal/portal.css")
    assert re.fullmatch(r"/static/portal/portal\.[0-9a-f]{12}\.css", address)
    packed = anonymous_client.get(address, headers=GZIP)
    assert gzip.decompress(packed.content) == raw
    plain = anonymous_client.get(address)
    assert "Content-Encoding" not in plain.headers
    assert content(plain) == raw
    assert packed["Content-Type"] == plain["Content-Type"] == 'text/css; charset="utf-8"'


@pytest.mark.parametrize("address", ["/static/portal/portal.css", "/static/portal/portal.0123456789ab.css"])
def test_a_plain_name_and_the_digest_of_another_release_get_the_file_of_now_for_a_while(
    anonymous_client: Client, address: str
) -> None:
    answer = anonymous_client.get(address, headers=GZIP)
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "max-age=3600, public"


def test_what_has_not_changed_is_not_sent_again_and_nothing_else_is_answered(
    anonymous_client: Client,
) -> None:
    address = static("portal/portal.css")
    tag = anonymous_client.get(address, headers=GZIP)["ETag"]
    assert anonymous_client.get(address, headers={**GZIP, "If-None-Match": tag}).status_code == 304
    assert anonymous_client.head(address, headers=GZIP).status_code == 200
    assert anonymous_client.post(address).status_code == 405
    assert anonymous_client.get("/static/portal/gone.0123456789ab.css").status_code == 404
    part = anonymous_client.get(address, headers={**GZIP, "Range": "bytes=0-9"})
    assert (part.status_code, len(content(part))) == (206, 10)
