"""HTML as readable text, Markdown and code as they are (SYN-1)."""

from __future__ import annotations

import time

import pytest

from tools.imports.formats.texts import clean_value, one_line, plain_text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("<p>One</p><p>Two</p>", "One\n\nTwo"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
        ("a<br/>b", "a\nb"),
        ('<a href="x">link</a> and <strong>bold</strong>', "link and bold"),
        ("<code>x</code>", "`x`"),
        (
            "**bold** [link](x) `<p>` <placeholder> a < b && c > d",
            "**bold** [link](x) `<p>` <placeholder> a < b && c > d",
        ),
        ("```\n<p>code</p>\n```", "```\n<p>code</p>\n```"),
        ("Tom &amp; Jerry &lt;p&gt; &#39;s &copy=1 &#27;[0m", "Tom & Jerry <p> 's &copy=1 [0m"),
        ("<!-- no --><script>alert(1)</script>yes", "yes"),
        ("a\n\n\n\n\nb   \nc", "a\n\nb\nc"),
        ("Use <q>, <a> and <b>; List<I>, Map<String,B>", "Use <q>, <a> and <b>; List<I>, Map<String,B>"),
        ("1<a and b>3, see <a href='x'>here</a>", "1<a and b>3, see here"),
        ("Send <code> from the <p>.", "Send <code> from the <p>."),
        ("First.<p>Second.<p>Third", "First.\nSecond.\nThird"),
        ("a <b>bold</b> <b> and <B>BOLD</B>", "a bold <b> and BOLD"),
        ("?a=1&notit;&para;&nosuchname;", "?a=1&notit;¶&nosuchname;"),
        ("a\x85b", "a\x85b".replace("\x85", " ")),
        (None, ""),
        ({}, ""),
        (1.5, "1.5"),
    ],
)
def test_html_becomes_text_and_everything_else_stays_SYN_1(written: object, expected: str) -> None:
    assert plain_text(clean_value(written), limit=1_000) == expected


def test_long_texts_are_cut_with_an_ellipsis_SYN_1() -> None:
    assert plain_text("word " * 100, limit=20) == "word word word word…"
    assert one_line("a\n b\t c", limit=10) == "a b c"


def test_values_are_cleaned_in_keys_and_texts_SYN_1() -> None:
    written = {"a\x00": ["\x1b[0m", float("nan"), 1, None, {"b\ud800": "c\r\nd"}]}
    assert clean_value(written) == {"a": ["[0m", "nan", 1, None, {"b": "c\nd"}]}


@pytest.mark.parametrize("hostile", ["<!--", "<p ", "<script>", "```", "`", "&", "&#", " ", "\n", "<a", "</"])
def test_no_text_takes_long_SYN_1(hostile: str) -> None:
    started = time.process_time()
    plain_text(hostile * (40_000 // len(hostile)), limit=8_000)
    assert time.process_time() - started < 0.5
