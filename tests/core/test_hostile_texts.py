"""Whatever a text holds, a reader gives a value or one of our errors."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Profile, parse_document, serialise
from ninfer_device_profiles.errors import ProfileError
from ninfer_device_profiles.model import Document

from generator.calibration import calibrate
from generator.core.bench_readers import find_programs, judged_cases
from generator.core.bench_readers.read import read_output
from generator.core.catalog import build_catalog
from generator.core.engine_evidence import engine_evidence
from generator.core.engine_log import parse_log
from generator.core.evidence import Evidence
from generator.core.evidence_file import dump_evidence, evidence_name, load_evidence
from generator.core.evidence_report import efficiency_markdown, flips_markdown, regrets
from generator.core.imported import Imported, read_imported, take_entries, write_imported
from generator.core.limits import LIMITS
from generator.core.manifest import parse_grid, parse_manifest
from generator.core.measured import measured_source
from generator.core.overrides import parse_overrides
from generator.core.provenance import measured_profile
from generator.core.recorded_rule import recorded_rule, rule_facts
from generator.core.reference import parse_reference_gpus
from generator.core.round_files import parse_round
from generator.core.rounds import Table, serialise_round
from generator.core.route import HardwareClass, RouteKey, Schedule
from generator.core.settle import earlier_choices
from generator.core.sweep import Sweep
from generator.core.texts import load_json, load_toml
from generator.core.unified import select
from generator.core.verdict import Rule
from generator.errors import EvidenceError, GeneratorError, SourceError
from generator.files import utf8
from generator.progress import Silent
from generator.replay import ReplayBench
from kernels import find_families
from tests.core.bench_outputs import outputs_of
from tests.core.engine_runs import log_of
from tests.core.fake_bench import FakeBench
from tests.core.hostile import changed, changed_bytes
from tests.core.unified_rounds import DEVICE, both, make_round, times_of

if TYPE_CHECKING:
    from collections.abc import Callable

REFERENCE = """\
[[gpu]]
name = "RTX A"
device_name = "NVIDIA A"
capability = "8.6"
hardware_class = "nvidia-a-sm86"
multiprocessors = 10
power_limit_w = 170
families = ["ternary"]
cuda = 13
"""

CATALOG = build_catalog(find_families())
CASES = judged_cases()
KEYS = ("attn_prompt_fast", "gdn_two_stage/h48")
MANIFEST = """\
device = "nvidia-geforce-rtx-3090-sm86/82"
execution = "program"

[conditions]
build = "b1"
cuda_driver = 13010

[[run]]
round = 1
table = "legacy"
first = "legacy"
conditions = { sm_clock_mhz = 1695 }
files = ["a.csv", { path = "b.csv", program = "p", k = 2048 }]
"""
GRID = 'widths = [1, 2]\n\n[keys]\n"unified/x" = [1, 4]\n\n[leave_out]\n"unified/x" = ["a*"]\n'
OVERRIDES = """\
[[override]]
hardware_class = "nvidia-h200-sm90"
multiprocessors = 132
key = "attn_prompt_fast"
bands = [[64, "on"], [1024, ""]]
reason = "measured in service"
author = "a"
expires = 2027-03-31
"""


def only_ours(action: Callable[[], object]) -> None:
    """Run ``action``; any exception but ours leaves."""
    with suppress(GeneratorError, ProfileError):
        action()


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    bench = FakeBench(CATALOG, {("gdn_two_stage/h48", 8192, "on"): 60.0}, spread=0.002)
    stored = {(RouteKey(key), width): Schedule("on") for key in KEYS for width in CATALOG.route(key).widths}
    sweep = Sweep(catalog=CATALOG, limits=LIMITS, rule=Rule.GUARDED, earlier=stored)
    routes = [CATALOG.routes[CATALOG.route(key).key] for key in KEYS]
    results = list(sweep.keys(routes, bench, lambda _key, _width: None))
    facts = bench.facts()
    return Evidence(
        bench=facts.kind,
        catalog=CATALOG.digest(),
        device=facts.device,
        rule=rule_facts(Rule.GUARDED, LIMITS),
        run={**facts.run, "date": "2026-11-29T22:00:00Z", "ninfer_build": "b", "cuda_driver": 13010},
        keys=tuple(result.facts for result in results),
        trials=tuple(trial for result in results for trial in result.trials),
    )


def use(text: str, other: Evidence) -> None:
    """Do with evidence all that the verbs do."""
    found = load_evidence(text, "e.json")
    evidence_name(found)
    rule, limits = recorded_rule(found, "e.json")
    only_ours(lambda: flips_markdown(found, other, CATALOG, LIMITS))
    only_ours(lambda: efficiency_markdown(found))
    only_ours(lambda: regrets(found, CATALOG, {}))
    only_ours(lambda: measured_source(found, "e.json", "0" * 64, CATALOG))
    routes = [route for route in CATALOG.calibrated if route.key in {facts.key for facts in found.keys}]
    outcomes = calibrate(
        bench=ReplayBench(found, "e.json"),
        catalog=CATALOG,
        routes=routes,
        limits=limits,
        rule=rule,
        run={},
        journal=None,
        resume=False,
        progress=Silent(),
        detail=True,
        earlier=earlier_choices(found),
    )
    serialise(Document(devices=(outcomes.profile,)))
    load_evidence(dump_evidence(outcomes.evidence), "again")


@settings(max_examples=60)
@given(st.data())
def test_evidence_is_read_and_used_or_refused(evidence: Evidence, data: st.DataObject) -> None:
    text = data.draw(changed(dump_evidence(evidence)))
    only_ours(lambda: use(utf8(text, "e.json"), evidence))


ROUND = serialise_round(make_round(1, times_of({**both(16, 100.5, 90), **both(20, 200, 180)})))


@settings(max_examples=50)
@given(changed(ROUND))
def test_round_files_are_read_and_selected_or_refused(text: bytes) -> None:
    other = make_round(2, times_of({**both(16, 100.5, 90), **both(20, 200, 180)}))
    only_ours(lambda: select([parse_round(text, "round.json"), other], CASES))


OUTPUTS = outputs_of(DEVICE, 1, Table.LEGACY, lambda *_: 12.5)


@settings(max_examples=60)
@given(st.sampled_from(sorted(OUTPUTS)), st.data())
def test_benchmark_outputs_are_read_or_refused(name: str, data: st.DataObject) -> None:
    text = data.draw(changed_bytes(OUTPUTS[name][:1500] + "\n"))
    options = data.draw(st.sampled_from(({}, {"k": "2048"}, {"k": "9" * 5000}, {"k": "x"}, {"": ""})))
    programs = find_programs()
    program = data.draw(st.sampled_from(("", *programs, "other")))
    only_ours(
        lambda: read_output(
            [text], name, programs=programs, device=DEVICE, table=Table.LEGACY, program=program, settings=options
        )
    )


@pytest.fixture(scope="module")
def entry(evidence: Evidence) -> Profile:
    bands = {RouteKey("attn_prompt_fast"): (Band(1 << 20, "on"),), RouteKey("gdn_two_stage/h48"): (Band(64, ""),)}
    return measured_profile(evidence, bands)


@settings(max_examples=50)
@given(st.data())
def test_an_engines_log_and_entry_are_read_or_refused(entry: Profile, data: st.DataObject) -> None:
    text = data.draw(changed_bytes("\n".join(log_of(entry, CATALOG)) + "\n"))

    def read() -> Evidence:
        return engine_evidence(entry, parse_log(utf8(text, "l.log").splitlines(), "l.log"), CATALOG, "l.log")

    only_ours(lambda: evidence_name(read(), "-engine"))


@settings(max_examples=50)
@given(st.data())
def test_imported_sources_and_documents_are_read_or_refused(entry: Profile, data: st.DataObject) -> None:
    source = data.draw(changed(write_imported(Imported(profile=entry, file="a.json", sha256="0" * 64))))
    only_ours(lambda: read_imported(source, "source.json"))
    document = data.draw(changed(serialise(Document(devices=(entry,)))))
    only_ours(lambda: parse_document(document, "document.json"))
    only_ours(lambda: take_entries(document, "document.json", "0" * 64, CATALOG))


@settings(max_examples=60)
@given(changed_bytes(MANIFEST), changed_bytes(GRID), changed_bytes(OVERRIDES), changed_bytes(REFERENCE))
def test_toml_files_are_read_or_refused(manifest: bytes, grid: bytes, overrides: bytes, reference: bytes) -> None:
    only_ours(lambda: parse_manifest(utf8(manifest, "m.toml"), "m.toml"))
    only_ours(lambda: parse_grid(utf8(grid, "g.toml"), "g.toml"))
    only_ours(lambda: parse_overrides(utf8(overrides, "o.toml"), "o.toml", CATALOG))
    only_ours(lambda: parse_reference_gpus(utf8(reference, "r.toml"), "r.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "a.json: not JSON of ours: nested too deeply; restore it"),
        ('{"a": 1, "a": 2}', "a.json: not JSON: key 'a' appears twice in one object; restore it"),
        ("[-Infinity]", "a.json: not JSON: -Infinity is no JSON number; restore it"),
        ('{"a": "\\ud800"}', "a.json: not JSON: a text holds half of a surrogate pair; restore it"),
        (b"\xff", "a.json: byte 0 is not UTF-8; restore it"),
    ],
)
def test_json_that_the_standard_library_takes_or_chokes_on_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        load_json(text, "a.json", "restore it", error=EvidenceError)
    assert str(caught.value) == message


def test_deep_toml_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        load_toml("a = " + "[" * 10_000, "a.toml", "correct the file")
    assert str(caught.value) == "a.toml: not TOML: nested too deeply; correct the file"


@pytest.mark.parametrize(
    ("device", "date", "board"),
    [
        ("../../x-sm90", "2026-11-29T22:00:00Z", "0f3a"),
        ("nvidia-h200-sm90", "../../../x", ""),
        ("nvidia-h200-sm90", "a\nb", "0f3a"),
        ("nvidia-h200-sm90", "2026-11-29T22:00:00Z", "../../x"),
    ],
)
def test_evidence_never_names_a_file_outside_its_folder(evidence: Evidence, device: str, date: str, board: str) -> None:
    item = replace(
        evidence,
        device=replace(evidence.device, hardware_class=HardwareClass(device), uuid_hash=board),
        run={**evidence.run, "date": date},
    )
    with pytest.raises(EvidenceError) as caught:
        evidence_name(item)
    assert str(caught.value) == (
        f"evidence of {device!r}, dated {date!r}, board {board!r}: expected a hardware class such as "
        "'nvidia-h200-sm90', a date such as '2026-11-29T22:00:00Z' and hexadecimal digits, since they name its file; "
        "restore the file or measure again"
    )
