"""Every benchmark output of the described formats: what is read, and what becomes of everything odd."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.bench_readers import find_programs, judged_cases
from generator.core.bench_readers.read import Reading, class_stem, read_output
from generator.core.rounds import Case, Table, parse_device
from generator.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

BLACKWELL = parse_device("nvidia-geforce-rtx-5090-sm120/170")
HEADER = "path,T,median_us,min_us,p95_us,warmup,repeat\n"
ADD = "ninfer_q8_linear_add_bench"


def _read(text: str | bytes, name: str = "out.csv", *, program: str = "", **settings: str) -> Reading:
    raw = text.encode() if isinstance(text, str) else text
    return read_output(
        [raw],
        name,
        programs=find_programs(),
        device=BLACKWELL,
        table=Table.LEGACY,
        program=program,
        settings=settings,
    )


def _golden(root: Path, name: str, **settings: str) -> Reading:
    return _read((root / "tests" / "golden" / "bench" / name).read_bytes(), name, **settings)


def _refusal(text: str | bytes, name: str = "out.csv", *, program: str = "", **settings: str) -> str:
    with pytest.raises(SourceError) as caught:
        _read(text, name, program=program, **settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings", "counts", "left_out"),
    [
        (
            "ninfer_attn_input_proj_bench.csv",
            {},
            {
                "unified/q4_q5_attn_input": 2,
                "unified/q8_attn_input": 6,
                "unified/bf16_attn_input": 3,
                "unified/nvfp4_attn_input": 4,
                "unified/fp8_attn_input": 4,
            },
            (),
        ),
        (
            "ninfer_gdn_input_proj_bench.csv",
            {},
            {
                "unified/q4_q5_gdn_input": 2,
                "unified/q8_gdn_input": 2,
                "unified/nvfp4_gdn_input": 4,
                "unified/fp8_gdn_input": 4,
            },
            (),
        ),
        (
            "ninfer_gdn_input_proj_conv_snapshot_bench.csv",
            {},
            {
                "unified/q4_q5_gdn_input": 6,
                "unified/q8_gdn_input": 6,
                "unified/nvfp4_gdn_input": 6,
                "unified/fp8_gdn_input": 7,
            },
            ("row of another GPU, 'NVIDIA GeForce RTX 3090'",),
        ),
        (
            "ninfer_q5_linear_add_bench.csv",
            {},
            {"unified/q5_linear_add/5120x6144": 2, "unified/q5_linear_add/5120x17408": 2},
            (),
        ),
        ("ninfer_q4_linear_swiglu_bench.csv", {}, {"unified/q4_linear_swiglu": 2}, ()),
        (
            "ninfer_q8_linear_add_bench-k6144.csv",
            {"k": "6144"},
            {"unified/q8_linear_add": 2},
            ("row: private candidate, path 'splitk_c16'",),
        ),
        ("ninfer_q8_linear_swiglu_bench.csv", {}, {"unified/q8_linear_swiglu": 4}, ()),
        ("ninfer_nvfp4_linear_swiglu_bench.csv", {}, {"unified/nvfp4_linear_swiglu": 4}, ()),
        ("ninfer_fp8_linear_swiglu_bench-a16.txt", {}, {"unified/fp8_linear_swiglu": 2}, ("line of prose",)),
        ("ninfer_fp8_linear_add_bench.csv", {}, {"unified/fp8_linear_add": 8}, ()),
        (
            "ninfer_bf16_linear_add_bench.csv",
            {},
            {"unified/bf16_linear_add": 2},
            ("row: private candidate, route 'mma_c64'",),
        ),
        ("ninfer_linear_pair_bench-k2048.txt", {"k": "2048"}, {"unified/q8_linear_pair": 2}, ("line of prose",)),
        (
            "ninfer_linear_topk_bench.csv",
            {},
            {"unified/q8_linear_topk": 2, "unified/fp8_linear_topk": 2, "unified/q4_linear_topk": 2},
            (),
        ),
        ("ninfer_linear_dynamic_grouped_conv_add_bench.csv", {}, {"unified/q8_dynamic_grouped_conv": 4}, ()),
        (
            "ninfer_context_kv_materialize_bench.csv",
            {},
            {"unified/context_kv_materialize": 3},
            ("row: zero counts, nothing to time",),
        ),
        ("times_table.csv", {}, {"unified/nvfp4_linear_add": 8, "unified/q4_linear_add": 1}, ()),
    ],
)
def test_an_output_of_the_described_format_is_read_whole(
    root: Path, name: str, settings: dict[str, str], counts: dict[str, int], left_out: tuple[str, ...]
) -> None:
    reading = _golden(root, name, **settings)
    assert Counter(time.key for time in reading.times) == counts
    assert [note.partition("left out: ")[2] for note in reading.notes] == list(left_out)
    assert reading.source.program in name or name == "times_table.csv"
    assert all(time.median_us and time.min_us and time.p95_us for time in reading.times)


def test_every_program_but_the_refused_ones_has_a_golden_output(root: Path) -> None:
    names = [path.stem for path in (root / "tests" / "golden" / "bench").iterdir()]
    fed = [item.name for item in find_programs().values() if item.feeds]
    assert [name for name in fed if not any(stem.startswith(name) for stem in names)] == []
    assert len(fed) == 16


def test_every_program_reads_only_keys_and_cases_that_it_declares(root: Path) -> None:
    settings = {
        "ninfer_q8_linear_add_bench-k6144.csv": {"k": "6144"},
        "ninfer_linear_pair_bench-k2048.txt": {"k": "2048"},
    }
    for path in sorted((root / "tests" / "golden" / "bench").glob("*.[ct][sx][vt]")):
        reading = _golden(root, path.name, **settings.get(path.name, {}))
        if reading.skipped:
            continue
        feeds = find_programs()[reading.source.program].feeds
        cases = {key: {item.case for item in expected} for key, expected in feeds.items()}
        odd = {time.case.form for time in reading.times if time.case not in cases[time.key]}
        assert odd <= {"snapshot with 3 valid", "ragged"}


def test_fields_of_a_row_reach_the_record(root: Path) -> None:
    reading = _golden(root, "ninfer_gdn_input_proj_conv_snapshot_bench.csv")
    time = next(item for item in reading.times if item.case.form == "record" and item.cache == "warm")
    assert time == (
        "unified/q4_q5_gdn_input",
        Table.LEGACY,
        Case("4096+12288x5120", "q4q5", "", "record", 2),
        "graph",
        "warm",
        4,
        69.0,
        67.62,
        71.07,
        (),
    )


def test_a_program_that_found_no_gpu_gives_nothing_and_says_so(root: Path) -> None:
    reading = _golden(root, "skipped.txt")
    assert (reading.times, reading.widths, reading.skipped) == ((), {}, "no CUDA device")
    assert reading.notes == ("skipped.txt: the program skipped: no CUDA device",)


def test_a_time_of_nan_is_a_width_that_ran_without_a_time() -> None:
    reading = _read(HEADER + "production,8,nan,nan,nan,5,30\n", k="6144")
    assert reading.widths == {"unified/q8_linear_add": (8,)}
    assert [time.median_us for time in reading.times] == [None]


def test_a_row_that_repeats_to_the_digit_counts_once() -> None:
    reading = _read(HEADER + 2 * "production,8,10.5,10,11,5,30\n", k="6144")
    assert len(reading.times) == 1
    assert reading.notes == ("out.csv: once left out: row: repeats an earlier row to the digit",)


def test_a_row_that_repeats_with_another_time_is_refused() -> None:
    text = HEADER + "production,8,10.5,10,11,5,30\nproduction,8,10.6,10,11,5,30\n"
    assert _refusal(text, k="6144") == (
        "out.csv line 3 column 'median_us': unified/q8_linear_add q8 2048x6144 width 8 has median 10.6 us here and "
        "10.5 us in line 2; keep one run a file"
    )


def test_columns_nobody_knows_are_said_and_not_read() -> None:
    text = HEADER.replace(",repeat", ",repeat,clock") + "production,8,10.5,10,11,5,30,1695\n"
    reading = _read(text, k="6144")
    assert len(reading.times) == 1
    assert reading.notes == ("out.csv: columns nobody knows, not read: clock",)


def test_columns_may_stand_in_any_order() -> None:
    swapped = "median_us,min_us,p95_us,T,path,warmup,repeat\n10.5,10,11,8,production,5,30\n"
    assert _read(swapped, k="6144").times == _read(HEADER + "production,8,10.5,10,11,5,30\n", k="6144").times


def test_a_header_that_lacks_a_column_names_it() -> None:
    text = "path,T,median_us,min_us,p95_us,warmup\nproduction,8,10.5,10,11,5\n"
    assert _refusal(text) == (
        "out.csv line 1: columns ['path', 't', 'median_us', 'min_us', 'p95_us', 'warmup'] are of no known program; "
        "nearest is 'ninfer_q8_linear_add_bench', which has also ['repeat']. Check that the whole header line is there"
    )


def test_a_file_cut_inside_a_line_is_refused_with_the_place() -> None:
    text = HEADER + "production,8,10.5,10,11,5,30\nproduction,16,12.5,12,1"
    assert _refusal(text, k="6144") == (
        "out.csv line 3 column 24: the file ends inside a line, so it was cut off; copy it again, or run the benchmark "
        "again"
    )


def test_a_row_with_too_few_fields_is_refused_with_the_column() -> None:
    assert _refusal(HEADER + "production,8,10.5\n", k="6144") == (
        "out.csv line 2 column 'min_us': the row has 3 fields and the header 7; the output was cut or two were mixed. "
        "Run the benchmark again"
    )


def test_mixed_line_ends_are_read_alike_and_said() -> None:
    lines = (HEADER + "production,8,10.5,10,11,5,30\nproduction,9,12.5,12,13,5,30\n").splitlines()
    mixed = "\r\n".join(lines[:2]) + "\r" + lines[2] + "\n"
    reading = _read(mixed, k="6144")
    assert [time.width for time in reading.times] == [8, 9]
    assert reading.notes == ("out.csv: line ends are mixed (CR, CRLF, LF)",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("production,0,10.5,10,11,5,30", "column 't': t '0'; expected a whole number above 0"),
        ("production,8x,10.5,10,11,5,30", "column 't': t '8x'; expected a whole number above 0"),
        ("production,8,fast,10,11,5,30", "column 'median_us': median_us 'fast'; expected microseconds above 0, or nan"),
        ("production,8,-1,10,11,5,30", "column 'median_us': median_us '-1'; expected microseconds above 0, or nan"),
        ("production,8,inf,10,11,5,30", "column 'median_us': median_us 'inf'; expected microseconds above 0, or nan"),
        (
            "production,8,9.5,10,11,5,30",
            (
                "column 'median_us': median 9.5 us is not between min 10.0 and p95 11.0; the columns are mixed up. "
                "Run the benchmark again"
            ),
        ),
    ],
)
def test_a_value_that_is_none_is_refused_with_line_and_column(row: str, message: str) -> None:
    assert _refusal(HEADER + row + "\n", k="6144") == f"out.csv line 2 {message}"


def test_what_the_output_does_not_say_must_be_given() -> None:
    text = HEADER + "production,8,10.5,10,11,5,30\n"
    assert _refusal(text) == "out.csv line 2: does not say 'k'; give it with the file, k=4096 or 6144"
    assert _refusal(text, k="5120") == "out.csv line 2: k '5120'; expected one of ['4096', '6144']"
    assert _refusal(text, depth="6144") == (
        f"out.csv: setting 'depth' is none of '{ADD}', which takes ['k']; remove it"
    )


def test_a_setting_that_the_row_contradicts_is_refused(root: Path) -> None:
    text = (root / "tests" / "golden" / "bench" / "ninfer_q5_linear_add_bench.csv").read_text(encoding="utf-8")
    assert _refusal(text, k="17408") == (
        "out.csv line 2 column 'k': '6144' where k='17408' was given with the file; remove that setting"
    )


def test_an_unknown_format_is_refused_with_the_known_ones(root: Path) -> None:
    text = (root / "tests" / "golden" / "bench" / "ninfer_linear_topk_bench.csv").read_text(encoding="utf-8")
    assert _refusal(text.replace("q8-full,1,", "q9-full,1,")) == (
        "out.csv line 2 column 'profile': profile 'q9-full'; expected one of ['q8-full', 'fp8-full', 'q4-optimized']"
    )


def test_text_of_a_program_that_nothing_names_is_refused(root: Path) -> None:
    text = "T=1 median=6.1 us min=6.0 us p95=6.4 us\n"
    assert _refusal(text, "log.txt").startswith(
        "log.txt line 1: text of an unnamed program; name it with the file, or in the file's name. Known: ninfer_"
    )
    named = _read(text, "log.txt", program="ninfer_linear_pair_bench", k="5120")
    assert [time.case for time in named.times] == [Case("1024+1024x5120", "q8")]
    assert _refusal(text, "log.txt", program="other") == (
        f"log.txt: program 'other' is none of {sorted(find_programs())!r}; name one of them"
    )


def test_a_value_of_a_text_line_is_refused_with_its_column() -> None:
    text = "# pair\nT=x median=6.1 us min=6.0 us p95=6.4 us\n"
    assert _refusal(text, "ninfer_linear_pair_bench.txt", k="2048") == (
        "ninfer_linear_pair_bench.txt line 2 column 3: t 'x'; expected a whole number above 0"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "ninfer_linear_bench.csv",
            (
                "output of 'ninfer_linear_bench': plain Linear shapes are in no profile; the engine compiles their "
                "tables in"
            ),
        ),
        (
            "dense_linear_add_schedule_bench.csv",
            (
                "output of 'dense_linear_add_schedule_bench': it times private launchers and not the two tables; time "
                "the operation with each table and bring the times as a times_table"
            ),
        ),
    ],
)
def test_outputs_that_feed_no_key_are_refused_with_the_reason(name: str, reason: str) -> None:
    assert _refusal("n,k,median_us\n1,2,3\n", name) == f"{name}: {reason}"


def test_an_output_of_the_other_table_is_refused(root: Path) -> None:
    path = root / "tests" / "golden" / "bench" / "ninfer_linear_dynamic_grouped_conv_add_bench.csv"
    text = path.read_text(encoding="utf-8").replace(",legacy,", ",unified,")
    assert _refusal(text) == (
        "out.csv line 2 column 'route': route 'unified' in an output imported as table 'legacy'; import it as the "
        "table that ran"
    )


def test_an_output_of_another_gpu_alone_is_refused(root: Path) -> None:
    path = root / "tests" / "golden" / "bench" / "ninfer_gdn_input_proj_conv_snapshot_bench.csv"
    text = path.read_text(encoding="utf-8").replace("5090", "3090")
    assert _refusal(text) == (
        "out.csv: holds no row of nvidia-geforce-rtx-5090-sm120/170 (row of another GPU, 'NVIDIA GeForce RTX 3090'); "
        "expected rows of one benchmark program. Check the device and the file"
    )


def test_an_empty_file_is_refused() -> None:
    assert _refusal("") == (
        "out.csv: holds no row of nvidia-geforce-rtx-5090-sm120/170; expected rows of one benchmark program. Check the "
        "device and the file"
    )


def test_bytes_that_are_not_utf_8_are_refused_with_the_place() -> None:
    assert _refusal(HEADER.encode() + b"production,8,\xff\n", k="6144") == (
        "out.csv line 2 column 14: byte 0xff is not UTF-8; save the output as UTF-8"
    )


def test_a_byte_order_mark_and_quotes_are_read_through() -> None:
    text = "\ufeff" + HEADER + '"production",8,"10.5",10,11,5,30\n'
    assert [time.median_us for time in _read(text, k="6144").times] == [10.5]


def test_the_same_header_again_is_an_appended_run() -> None:
    text = HEADER + "production,8,10.5,10,11,5,30\n" + HEADER + "production,9,10.5,10,11,5,30\n"
    assert [time.width for time in _read(text, k="6144").times] == [8, 9]


def test_two_programs_in_one_file_are_refused(root: Path) -> None:
    topk = (root / "tests" / "golden" / "bench" / "ninfer_linear_topk_bench.csv").read_text(encoding="utf-8")
    assert _refusal(HEADER + topk, k="6144") == (
        "out.csv line 2: the columns are those of 'ninfer_linear_topk_bench' in an output of "
        "'ninfer_q8_linear_add_bench'; import one program a file"
    )


@given(st.lists(st.integers(1, 40), max_size=12))
def test_a_file_may_arrive_in_pieces_of_any_size(sizes: list[int]) -> None:
    raw = (HEADER + "production,8,10.5,10,11,5,30\r\nproduction,9,12.5,12,13,5,30\n").encode()
    pieces, place = [], 0
    for size in sizes:
        pieces.append(raw[place : place + size])
        place += size
    pieces.append(raw[place:])
    whole = _read(raw, k="6144")
    parts = read_output(
        pieces,
        "out.csv",
        programs=find_programs(),
        device=BLACKWELL,
        table=Table.LEGACY,
        settings={"k": "6144"},
    )
    assert parts == whole


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_source_error(raw: bytes) -> None:
    for text in (raw, HEADER.encode() + raw, HEADER.encode() + raw + b"\n"):
        try:
            _read(text, k="6144")
        except SourceError as error:
            told = str(error)
        else:
            told = "out.csv"
        assert told.startswith("out.csv")


def test_every_key_is_fed_and_only_cases_of_blackwell_need_it() -> None:
    cases = judged_cases()
    assert len(cases) == 26
    assert {item.case.policy for items in cases.values() for item in items if item.capability} == {"a4", "a8"}
    assert {item.case.policy for items in cases.values() for item in items if not item.capability} == {"", "a16"}


def test_a_gpu_is_compared_as_the_class_names_it() -> None:
    assert class_stem("NVIDIA GeForce RTX 5090") == "nvidia-geforce-rtx-5090"
    assert class_stem("Tesla V100-SXM2-16GB") == "nvidia-tesla-v100-sxm2-16gb"
