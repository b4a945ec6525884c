from __future__ import annotations

from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from tools.web.shell.diff import as_text, word_diff
from tools.web.shell.forms import LinesField, PlainTextField
from tools.web.shell.polling import poll_count, poll_seconds
from tools.web.tools.markdown import to_html
from tools.web.tools.parameters import parameters_of, type_of


@given(st.text(alphabet="ab c.\n", max_size=60), st.text(alphabet="ab c.\n", max_size=60))
def test_a_word_diff_loses_nothing_of_either_text(old: str, new: str) -> None:
    diff = word_diff(old, new)
    assert "".join(one.text for one in diff if one.kind != "new") == old
    assert "".join(one.text for one in diff if one.kind != "gone") == new


def test_a_word_diff_marks_whole_phrases() -> None:
    kinds = [(one.kind, one.text) for one in word_diff("Lists the orders.", "Lists all open orders.")]
    assert kinds == [("same", "Lists "), ("gone", "the"), ("new", "all open"), ("same", " orders.")]


def test_a_word_diff_of_long_texts_stays_cheap() -> None:
    assert [one.kind for one in word_diff("a " * 5000, "b " * 5000)] == ["gone", "new"]


def test_values_are_read_as_people_read_them() -> None:
    assert as_text(["a", "b"]) == "a\nb"
    assert as_text(True) == "yes"
    assert as_text(None) == ""


def test_SEC_3_markdown_of_strangers_brings_no_html_scripts_or_images() -> None:
    html = to_html(
        "# Big\n<script>alert(1)</script> <img src=x onerror=y> ![i](http://x/y.png) [a](javascript:alert(1)) [b](https://e.com)"
    )
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert '<a href="https://e.com" rel="noopener noreferrer nofollow">b</a>' in html
    assert "<h3>Big</h3>" in html
    assert "style=" not in to_html("|a|b|\n|:-|-:|\n|1|2|")


def test_parameters_name_type_need_default_and_choices() -> None:
    rows = parameters_of(
        {
            "type": "object",
            "required": ["b"],
            "properties": {
                "a": {"type": "integer", "default": 0, "enum": [0, 1]},
                "b": {"type": ["string", "null"]},
                "c": 5,
            },
        }
    )
    assert [(row.name, row.type, row.required) for row in rows] == [
        ("b", "string or null", True),
        ("a", "integer", False),
        ("c", "any", False),
    ]
    assert (rows[1].default, rows[1].choices) == ("0", ("0", "1"))
    assert parameters_of({"properties": "nonsense"}) == []
    assert parameters_of({"properties": {"x": {"properties": {}}}, "required": 5})[0].type == "object"


def test_a_type_that_refers_to_itself_ends() -> None:
    loop: dict[str, object] = {"type": "array"}
    loop["items"] = loop
    assert type_of(loop).startswith("array of array of")
    assert type_of({"$ref": "#/$defs/Pet"}) == "Pet"
    assert (
        type_of({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]})
        == "string (date) or null"
    )


def test_UI_1_polling_slows_down_by_its_own_count() -> None:
    assert [poll_seconds(count) for count in (0, 14, 15, 38, 39, 10_000)] == [2, 2, 5, 5, 15, 15]
    assert [poll_count(RequestFactory().get(f"/?n={n}")) for n in ("3", "-1", "x", "²", "", "9" * 50)] == [
        3,
        0,
        0,
        0,
        0,
        0,
    ]


def test_SYN_5_line_ends_and_blanks_of_a_browser_are_no_edit() -> None:
    plain, lines = PlainTextField(), LinesField(required=False)
    assert not plain.has_changed("a\n b ", "a\r\n b ")
    assert plain.clean("a\r\nb ") == "a\nb "
    assert plain.has_changed("a", "b")
    assert not lines.has_changed(["x, y", "z"], "x, y\r\nz\r\n")
    assert lines.clean("x\r\n\r\n y ") == ["x", "y"]
