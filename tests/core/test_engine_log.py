"""The engine's calibration log as evidence: what it says, and logs that are not whole or not of the entry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Profile, parse_document

from generator.core.engine_evidence import engine_evidence
from generator.core.engine_log import EngineLog, parse_log
from generator.core.evidence import BenchKind, Outcome
from generator.core.evidence_file import dump_evidence, load_evidence
from generator.core.limits import LIMITS
from generator.core.measured import measured_source
from generator.core.route import RouteKey, Schedule
from generator.core.sources import Kind
from generator.core.verdict import Rule
from generator.errors import SourceError
from tests.catalog_now import DIGEST
from tests.core.engine_runs import log_of
from tests.core.toy import bands_of

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog

HEAD = RouteKey("q6_head/248320x5120")
PROFILE = Profile(
    hardware_class="nvidia-geforce-rtx-3060-sm86",
    multiprocessors=28,
    origin="ninfer-calibrate on NVIDIA GeForce RTX 3060",
    calibration=Calibration(route_catalog=DIGEST, ninfer_build="796f985", date="2026-10-06T13:11:18Z"),
    routes={HEAD: (Band(2, "gemv"), Band(16, "small_t"), Band(32, ""))},
)


def _refusal(lines: list[str], catalog: Catalog, profile: Profile = PROFILE) -> str:
    with pytest.raises(SourceError) as caught:
        engine_evidence(profile, parse_log(lines, "log"), catalog, "log")
    return str(caught.value)


def test_the_log_of_a_real_entry_gives_back_the_entry(shared_data: Path, catalog: Catalog) -> None:
    path = shared_data / "profiles" / "rtx3060-calibrated.json"
    (profile,) = parse_document(path.read_bytes(), path.name).devices
    for detail in (True, False):
        log = parse_log(log_of(profile, catalog, detail=detail), "log")
        evidence = engine_evidence(profile, log, catalog, "log")
        assert load_evidence(dump_evidence(evidence), "evidence.json") == replace(
            evidence,
            keys=tuple(sorted(evidence.keys, key=lambda item: item.key)),
            trials=tuple(sorted(evidence.trials, key=lambda item: item.place)),
        )
        assert bands_of(evidence, catalog, LIMITS, Rule.ENGINE) == dict(profile.routes)
        source = measured_source(evidence, "file", "0" * 64, catalog)
        assert (source.kind, source.incomplete) == (Kind.ENGINE, {})


def test_evidence_says_that_it_holds_medians_alone(catalog: Catalog) -> None:
    evidence = engine_evidence(PROFILE, parse_log(log_of(PROFILE, catalog), "log"), catalog, "log")
    assert evidence.bench is BenchKind.ENGINE
    assert evidence.rule == {"name": "engine"}
    assert evidence.run == {
        "statistic": "median only",
        "engine_seconds": 28.4,
        "ninfer_build": "796f985",
        "cuda_driver": 0,
        "cuda_runtime": 0,
        "date": "2026-10-06T13:11:18Z",
    }
    assert (evidence.device.name, evidence.device.capability) == ("NVIDIA GeForce RTX 3060", 86)
    trial = evidence.trial(HEAD, 1, Schedule("gemv"))
    assert trial is not None
    assert (trial.first_us, trial.chosen) == ((80.0,), True)
    kept = evidence.trial(HEAD, 32)
    assert kept is not None
    assert kept.chosen


def test_what_became_of_each_candidate_is_told(catalog: Catalog) -> None:
    profile = replace(PROFILE, routes={HEAD: (Band(32, ""),)})
    lines = log_of(profile, catalog)
    lines = [line for line in lines if not line.startswith(f"{HEAD} w=1 gemv ")]
    place = lines.index(f"{HEAD} w=1 small_t 99.0 us (compiled 100.0 us)")
    lines[place] = f"{HEAD} w=1 small_t rejected: output differs by 0.0712"
    evidence = engine_evidence(profile, parse_log(lines, "log"), catalog, "log")
    found = {
        (width, name): evidence.trial(HEAD, width, Schedule(name)) for width in (1, 3) for name in ("gemv", "small_t")
    }
    told = {place: (trial.outcome, trial.reason) for place, trial in found.items() if trial is not None}
    assert told == {
        (1, "gemv"): (Outcome.FAILED, "no line in the engine's log: its checked run failed"),
        (1, "small_t"): (Outcome.REFUSED, "output differs by 0.0712"),
        (3, "gemv"): (Outcome.INELIGIBLE, "not legal at this width"),
        (3, "small_t"): (Outcome.TIMED, ""),
    }


def test_an_infinite_compiled_median_is_a_failed_trial_and_the_choice_stands(catalog: Catalog) -> None:
    lines = [line.replace("w=1 compiled 100.0", "w=1 compiled inf") for line in log_of(PROFILE, catalog)]
    evidence = engine_evidence(PROFILE, parse_log(lines, "log"), catalog, "log")
    compiled = evidence.trial(HEAD, 1)
    assert compiled is not None
    assert (compiled.outcome, compiled.reason) == (Outcome.FAILED, "infinite median: a timed launch failed")
    assert bands_of(evidence, catalog, LIMITS, Rule.ENGINE) == dict(PROFILE.routes)


def test_keys_of_the_entry_that_the_run_did_not_measure_are_left_to_the_import(catalog: Catalog) -> None:
    lines = log_of(PROFILE, catalog)
    merged = replace(PROFILE, routes={**PROFILE.routes, "attn_pv_f16": (Band(1, "on"),)})
    evidence = engine_evidence(merged, parse_log(lines, "log"), catalog, "log")
    assert [facts.key for facts in evidence.keys] == [HEAD]


def test_lines_before_and_after_the_run_are_counted_and_left_alone(catalog: Catalog) -> None:
    log = parse_log(["device 0: NVIDIA GeForce RTX 3060", "", *log_of(PROFILE, catalog), "real 0m28.4s"], "log")
    assert (log.remarks, log.detailed, len(log.points)) == (2, True, 16)


@pytest.mark.parametrize("text", ["hello world", "gibberish: 12", "{", f"{HEAD} w= compiled 1.0 us -> gemv 1.0 us"])
@pytest.mark.parametrize("place", [1, 20, -2, -1])
def test_a_line_of_no_known_form_within_the_run_is_refused(catalog: Catalog, text: str, place: int) -> None:
    lines = log_of(PROFILE, catalog)
    lines.insert(place, text)
    assert _refusal(lines, catalog) == (
        f"log line {lines.index(text) + 1}: {text!r} within the run; expected a decision, a refusal, a candidate's "
        "time or the summary. The log is of another version of the tool, or was changed: bring the whole stderr of one "
        "run, and nothing else in it"
    )


@pytest.mark.parametrize("widths", [(20,), (1,), (32,), (2, 8)])
@pytest.mark.parametrize("detail", [True, False])
def test_a_log_without_a_line_of_a_measured_width_is_refused(
    catalog: Catalog, widths: tuple[int, ...], *, detail: bool
) -> None:
    gone = tuple(f"{HEAD} w={width} " for width in widths)
    lines = [line for line in log_of(PROFILE, catalog, detail=detail) if not line.startswith(gone)]
    assert _refusal(lines, catalog) == (
        f"log line {len(lines) - 2}: {HEAD}: the decisions up to here are of {16 - len(widths)} widths, no line "
        f"decides {list(widths)!r}; expected all 16 widths of this catalog. Lines are missing: bring the whole log, or "
        "calibrate again"
    )


@pytest.mark.parametrize(
    "text",
    [
        "replaying 1 route key (16 points) of evidence.json, guarded rule; no GPU",
        "calibrating 67 route keys (900 points) on NVIDIA H200 (132 SMs, 700 W) as nvidia-h200-sm90: 9 timings",
        "hidden twins: 0 of 16 would have been switched",
        "stored entry: choices known: 8; kept against this run's own, as its samples do not tell them apart: 2",
        f"engine: {HEAD} w=1 compiled 100.0 us -> gemv 80.0 us",
    ],
)
@pytest.mark.parametrize("place", [0, -1])
def test_a_log_of_our_own_calibrate_is_refused(catalog: Catalog, text: str, place: int) -> None:
    lines = log_of(PROFILE, catalog)
    lines.insert(place, text)
    assert _refusal(lines, catalog) == (
        f"log line {lines.index(text) + 1}: {text!r} is of this project's own `calibrate`; expected the stderr of the "
        "engine's ninfer-calibrate. What `calibrate` measured is in its evidence file already: bring that with "
        "`calibrate --replay`, or copy it below sources/measured"
    )


def test_the_log_of_a_run_that_failed_is_refused(catalog: Catalog) -> None:
    lines = [*log_of(PROFILE, catalog), "ninfer-calibrate: cannot write profiles.json"]
    assert _refusal(lines, catalog) == (
        f"log line {len(lines)}: 'ninfer-calibrate: cannot write profiles.json'; expected a run that succeeded. Mend "
        "that and calibrate again"
    )


def test_two_runs_in_one_log_are_refused(catalog: Catalog) -> None:
    lines = log_of(PROFILE, catalog, detail=False)
    end = len(lines)
    assert _refusal([*lines, lines[-2]], catalog) == (
        f"log line {end + 1}: {lines[-2]!r} after the end of the run; bring one run at a time"
    )
    assert _refusal([lines[-2], *lines], catalog) == (
        f"log line 2: {lines[0]!r} after the end of the run; bring one run at a time"
    )


def test_a_second_line_of_a_candidate_is_refused(catalog: Catalog) -> None:
    lines = log_of(PROFILE, catalog)
    assert lines[0] == f"{HEAD} w=1 gemv 80.0 us (compiled 100.0 us)"
    assert _refusal([lines[0], *lines], catalog) == (
        f"log line 2: {lines[0]!r} is the second line of this candidate; bring one run at a time"
    )
    assert _refusal([*lines[:3], lines[0], *lines[3:]], catalog) == (
        f"log line 4: {lines[0]!r} after the decision of this width in line 3; bring one run at a time"
    )


def test_a_log_that_ends_early_is_refused(catalog: Catalog) -> None:
    lines = log_of(PROFILE, catalog)
    assert _refusal(lines[:9], catalog) == (
        "log line 9: the log ends without the line 'calibration: … keys measured'; the run did not finish, ran with "
        "--quiet, or its log was cut off. Calibrate again and keep the whole log"
    )
    assert _refusal(lines[:-1], catalog).startswith(
        f"log line {len(lines) - 1}: the log ends without the line 'stored … measured keys'"
    )


def test_a_log_that_lacks_a_decision_is_refused(catalog: Catalog) -> None:
    lines = [line for line in log_of(PROFILE, catalog) if not line.startswith(f"{HEAD} w=8 compiled")]
    assert _refusal(lines, catalog) == (
        f"log line {len(lines)}: {HEAD} w=8 has candidates and no decision; the log was cut. Calibrate again and keep "
        "the whole log"
    )
    silent = [line for line in log_of(PROFILE, catalog, detail=False) if not line.startswith(HEAD)]
    assert _refusal(silent, catalog) == (
        "log: decisions on 0 keys, 0 routed off the compiled route; the summary says 1 and 1. Lines are missing: "
        "calibrate again"
    )


def test_a_line_of_an_unknown_form_is_refused(catalog: Catalog) -> None:
    lines = [*log_of(PROFILE, catalog), f"{HEAD} w=1 gemv 80.0 ms"]
    assert _refusal(lines, catalog) == (
        f"log line {len(lines)}: '{HEAD} w=1 gemv 80.0 ms'; expected a decision, a refusal or a candidate's time. The "
        "log is of another version of the tool, or was changed"
    )


def test_a_time_that_is_none_is_refused_with_its_place(catalog: Catalog) -> None:
    lines = [line.replace("small_t 99.0", "small_t fast") for line in log_of(PROFILE, catalog)]
    assert _refusal(lines, catalog) == ("log line 2 column 33: 'fast'; expected microseconds above 0 or inf")


def test_a_decision_made_twice_is_refused(catalog: Catalog) -> None:
    lines = log_of(PROFILE, catalog, detail=False)
    assert _refusal([lines[0], *lines], catalog) == (
        f"log line 2: {HEAD} w=1 is decided again, first in line 1; bring one run at a time"
    )


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            replace(PROFILE, multiprocessors=30),
            (
                "log: hardware class and SM count 'nvidia-geforce-rtx-3060-sm86/28' in the log and "
                "'nvidia-geforce-rtx-3060-sm86/30' in the entry; bring the log and the --print output of one run"
            ),
        ),
        (
            replace(PROFILE, calibration=None),
            (
                f"log: route catalog '{DIGEST}' in the log and 'none' in the entry; bring the log and "
                "the --print "
                "output of one run"
            ),
        ),
        (
            replace(PROFILE, routes={HEAD: (Band(32, ""),)}),
            (
                "log: q6_head/248320x5120: the log's decisions give [[2, 'gemv'], [16, 'small_t'], [32, '']] "
                "and the entry "
                "holds [[32, '']]; bring the log and the --print output of one run"
            ),
        ),
        (
            replace(PROFILE, routes={}),
            (
                "log: q6_head/248320x5120: the log's decisions give [[2, 'gemv'], [16, 'small_t'], [32, '']] "
                "and the entry "
                "holds None; bring the log and the --print output of one run"
            ),
        ),
    ],
)
def test_a_log_of_another_entry_is_refused(catalog: Catalog, profile: Profile, message: str) -> None:
    assert _refusal(log_of(PROFILE, catalog), catalog, profile) == message


def test_a_log_of_another_catalog_is_refused(catalog: Catalog) -> None:
    older = replace(PROFILE, calibration=Calibration(route_catalog="33f546be871d5bec"))
    assert _refusal(log_of(older, catalog), catalog, older) == (
        f"log: measured against route catalog '33f546be871d5bec'; this catalog is '{DIGEST}'. Measure "
        "again with "
        "an engine build of this catalog"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("w=1 small_t ", "w=1 tiny ", "schedule 'tiny'; expected one of ['gemv', 'small_t']"),
        (
            "w=32 ",
            "w=33 ",
            (
                "this catalog measures [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]. The log is of another "
                "engine build"
            ),
        ),
        (HEAD, "q7_head", "key 'q7_head' is not one that this catalog calibrates; the log is of another engine build"),
    ],
)
def test_what_the_catalog_does_not_have_is_refused(catalog: Catalog, old: str, new: str, message: str) -> None:
    lines = [line.replace(old, new) for line in log_of(PROFILE, catalog)]
    assert _refusal(lines, catalog).endswith(message)


@given(st.lists(st.text(max_size=40), max_size=6))
def test_no_text_raises_anything_but_a_source_error(lines: list[str]) -> None:
    try:
        found: EngineLog | str = parse_log(lines, "log")
    except SourceError as error:
        found = str(error)
    assert isinstance(found, str)
    assert found.startswith("log")
