"""Reports: what they say, and that no text of a table can break their form."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.core.escape import markdown, visible
from generator.core.report import COMMENT_LIMIT, Format, render
from generator.core.review import Side, review
from generator.core.route import HardwareClass
from tests.catalog_now import DIGEST
from tests.core.tables import CLASS, bands, documents, entry, table

if TYPE_CHECKING:
    from ninfer_device_profiles.document import Document

    from generator.core.catalog import Catalog
    from generator.core.reference import ReferenceGpu
    from generator.core.review import Review

HEAD = "q6_head/248320x5120"
HOSTILE = (
    "<script>alert(1)</script>",
    "a|b|c",
    "`code` ``two``",
    "line\nbreak\r\n| x |\n\n# head",
    "</td></tr></table></details>",
    "\"quotes\" and 'single'",
    ')" [link](http://example.org) ![x](y)',
    "\x1b[31mred\x07\x9b\u202etxt\u200b\u2028",
    "*bold* _it_ ~~gone~~ **x**",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; &amp;",
    "@octocat #1 www.example.org a@example.org",
    "x" * 5000,
    "]]>--><!--",
)


def of(catalog: Catalog, old: Document, new: Document) -> Review:
    return review(Side("old", old), Side("new", new), catalog)


def hostile_review(catalog: Catalog, text: str) -> Review:
    routes = {text: bands((8, text)), HEAD: bands((2, "gemv"), (8, text)), "attn_pv_f16": bands((1, "on"))}
    old = table(entry({HEAD: bands((2, "gemv"), (20, "small_t"))}, origin="before"), entry(routes, name=text))
    new = table(entry(routes, origin=text), entry({HEAD: bands((2, text))}, name=f"{text}-sm86", sms=1))
    return review(Side(text, old), Side(text, new), catalog)


class Structure(HTMLParser):
    """Checks that tags nest, and collects what stands where."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def structure(text: str) -> Structure:
    parser = Structure()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


HTML_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "small", "p", "code", "div"),
    *("strong", "ul", "li", "section", "table", "thead", "tr", "th", "tbody", "td", "span", "details", "summary"),
    *("figure", "figcaption", "svg", "rect", "text", "g"),
}


@pytest.mark.parametrize("text", HOSTILE)
def test_html_keeps_its_structure_whatever_the_table_says(catalog: Catalog, text: str) -> None:
    page = structure(render(hostile_review(catalog, text), Format.HTML))
    assert set(page.tags) <= HTML_TAGS
    assert page.tags.count("main") == 1
    assert not {name for name in page.attributes if name.startswith("on")} | {"href", "src"} & page.attributes
    assert visible(text) in "".join(page.text)


def test_html_keeps_ranges_and_names_on_one_line_wherever_they_stand(catalog: Catalog) -> None:
    old = table(entry({HEAD: bands((2, "gemv"), (20, "small_t"))}, name="a-sm86"), entry({HEAD: bands((2, "gemv"))}))
    new = table(entry({HEAD: bands((2, "gemv")), "k/1": bands((9, "x-1"))}, name="a-sm86"))
    page = render(of(catalog, old, new), Format.HTML)
    body = page.partition("<body>")[2]
    for word in (HEAD, "3-20:", "1-9:", "&#x27;x-1&#x27;", "built-in"):
        assert f'<span class="w">{word}</span>' in body
    bare = re.sub(r'<span class="w">[^<]*</span>|<td class="num">[^<]*</td>|<title>[^<]*</title>|<[^>]*>', "", body)
    assert re.findall(r"[0-9]-[0-9]", bare) == []
    assert ".w { white-space: nowrap; }" in page


def test_html_needs_no_network_and_forbids_scripts(catalog: Catalog) -> None:
    page = render(hostile_review(catalog, "x"), Format.HTML)
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def cells(line: str) -> int:
    return line.replace("\\|", "").count("|") - 1


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_keeps_its_tables_and_folds_whatever_the_table_says(catalog: Catalog, text: str) -> None:
    report = render(hostile_review(catalog, text), Format.MARKDOWN)
    lines = report.split("\n")
    assert not {char for char in report if ord(char) < 32} - {"\n"}
    width = 0
    for line in lines:
        assert line == "" or line[0] in "#*|><-CGNR", line
        if line.startswith("|"):
            width = width or cells(line)
            assert cells(line) == width, line
        else:
            width = 0
    tags = structure(report.replace("<!-- -->", ""))
    assert set(tags.tags) <= {"code", "details", "summary"}


@pytest.mark.parametrize("text", HOSTILE)
def test_terminal_text_has_no_control_character(catalog: Catalog, text: str) -> None:
    report = render(hostile_review(catalog, text), Format.TEXT)
    assert all(char == "\n" or char.isprintable() for char in report)


@pytest.mark.parametrize("text", [*HOSTILE, "\ud800"])
def test_json_is_ascii_and_agrees_with_its_schema(catalog: Catalog, text: str) -> None:
    report = render(hostile_review(catalog, text), Format.JSON)
    assert report.isascii()
    value = json.loads(report)
    validate(value)
    assert text in {item["schedule"] for item in value["unknown"]}


def validate(value: object) -> None:
    schema = json.loads(files("generator.core").joinpath("schema/review.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(value)


@given(text=st.text(max_size=40))
@settings(max_examples=60)
def test_escaped_markdown_has_no_syntax_left(text: str) -> None:
    shown = markdown(text).replace("<!-- -->", "")
    assert not set(shown) & set('\\`*{}[]()<>|~"@:$^!\n\r')
    assert shown.isprintable()


@given(old=documents(), new=documents())
@settings(max_examples=12)
def test_every_format_renders_every_pair_of_tables(catalog: Catalog, old: Document, new: Document) -> None:
    found = of(catalog, old, new)
    for form in Format:
        assert render(found, form).endswith("\n")
    value = json.loads(render(found, Format.JSON))
    validate(value)
    assert render(found, Format.JSON) == json.dumps(value, indent=2, sort_keys=True) + "\n"
    structure(render(found, Format.HTML))


def test_a_comment_never_exceeds_its_limit_and_says_what_it_leaves_out(catalog: Catalog) -> None:
    keys = list(catalog.routes)
    old = table(*(entry({}, name=f"card-{n}") for n in range(40)))
    new = table(*(entry({key: bands((5, f"unheard|of-{n}")) for key in keys}, name=f"card-{n}") for n in range(40)))
    report = render(of(catalog, old, new), Format.MARKDOWN)
    assert COMMENT_LIMIT * 3 // 4 < len(report) <= COMMENT_LIMIT
    assert "rows are not shown: a comment holds 65,536 characters. `--format html` shows all of them." in report
    assert f"{40 * len(keys)} reasons" in report
    structure(report)


def test_missing_reference_gpus_are_in_every_format(catalog: Catalog, v100: ReferenceGpu) -> None:
    document = table(entry({HEAD: bands((2, "gemv"), (32, ""))}))
    found = review(Side("a", document), Side("b", document), catalog, reference=[v100])
    for form in Format:
        report = render(found, form)
        assert "Tesla V100-SXM2-16GB" in report
        assert "nvidia-tesla-v100-sxm2-16gb-sm70" in report
    other = replace(v100, hardware_class=HardwareClass(CLASS), multiprocessors=82)
    assert review(Side("a", document), Side("b", document), catalog, reference=[other]).missing == ()


@pytest.fixture
def v100() -> ReferenceGpu:
    from generator.core.reference import ReferenceGpu
    from generator.core.route import Group

    return ReferenceGpu(
        name="Tesla V100-SXM2-16GB",
        device_name="Tesla V100-SXM2-16GB",
        capability=70,
        hardware_class=HardwareClass("nvidia-tesla-v100-sxm2-16gb-sm70"),
        multiprocessors=80,
        power_limit_w=300,
        families=(Group.LINEAR_ATTENTION,),
        cuda=12,
        extra=False,
    )


def test_numerics_come_before_the_classes_of_change(catalog: Catalog) -> None:
    old, new = (table(entry({"attn_pv_f16": bands((1, name))})) for name in ("", "on"))
    for form, heading in (
        (Format.TEXT, "Numerics: rounding class changes"),
        (Format.MARKDOWN, "**Numerics: changes of rounding class**"),
        (Format.HTML, "Numerics: changes of rounding class"),
    ):
        report = render(of(catalog, old, new), form)
        assert report.index(heading) < report.index("schedule changed")
        shown = "".join(structure(report).text) if form is Format.HTML else report.replace("&#62;", ">")
        assert "as compiled -> fp16 accumulation" in shown.replace("&gt;", ">")


def test_a_reorder_reads_as_no_change(catalog: Catalog) -> None:
    one, two = entry({HEAD: bands((2, "gemv"), (32, ""))}), entry({HEAD: bands((32, "small_t"))}, name="other")
    report = render(of(catalog, table(one, two), table(two, one)), Format.TEXT)
    assert report == (
        "Device route profiles: old -> new\n"
        "No routing change: at every device, key and width the same schedule runs. The texts differ, the routing does "
        "not.\n"
        f"Compared: 2 devices, 2 keys and every width from 1 to 2147483647, against route catalog {DIGEST}.\n"
        "\n"
        "Gate: yes. No coverage lost, no unknown schedule, no device dropped.\n"
        "\n"
        "Text only, no routing changes\n"
        "  the devices stand in another order\n"
    )


def test_a_split_band_is_text_only(catalog: Catalog) -> None:
    joined, split = bands((2, "gemv"), (32, "small_t")), bands((2, "gemv"), (8, "small_t"), (32, "small_t"))
    found = of(catalog, table(entry({HEAD: joined})), table(entry({HEAD: split})))
    assert found.diff.changes == ()
    assert [line.partition(": ")[2] for line in found.text_only] == [
        "the bands of 'q6_head/248320x5120' are spelt differently and mean the same"
    ]
