"""bench-unified, select, plan and derive over two rounds, from the printed commands to the table."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import schedule_at
from ninfer_device_profiles.document import parse_document

from generator.core.rounds import Table, parse_device
from kernels.unified_switches import NAMES
from tests.core.bench_outputs import commands_of, outputs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ninfer_device_profiles.bands import Bands

    from generator.core.rounds import Case
    from generator.core.route import RouteKey
    from tests.verbs.conftest import Result

    Command = Callable[..., Result]

DEVICE = "nvidia-geforce-rtx-5090-sm120/170"
CONDITIONS = (
    *("--build", "v0.13.0"),
    *("--cuda-driver", "13010"),
    *("--power-limit-w", "450"),
    *("--sm-clock-mhz", "2400"),
    *("--date", "2026-09-27"),
    *("--gpu", "0f3a"),
)
KEYS = {f"unified/{name}" for name in NAMES}


def _built_in(checkout: Path) -> dict[str, Bands]:
    path = checkout / "builtin_profiles/ninfer_device_profiles/device_profiles.json"
    document = parse_document(path.read_bytes(), path.name)
    (profile,) = [item for item in document.devices if DEVICE.startswith(item.hardware_class + "/")]
    return {key: bands for key, bands in profile.routes.items() if key in KEYS}


def _write_lab(folder: Path, bands: dict[str, Bands], prefix: str = "") -> None:
    """Write what a lab machine prints on which exactly ``bands`` win by a tenth."""

    def median(key: RouteKey, case: Case, width: int, table: Table) -> float:
        wins = table is Table.UNIFIED and schedule_at(bands.get(key, ()), width) == "unified"
        return 900.0 + len(str(case)) if wins else 1000.0 + len(str(case))

    for number in (1, 2):
        for table in Table:
            for name, text in outputs_of(parse_device(DEVICE), number, table, median, prefix).items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")


def _manifest(command: Command, folder: Path, prefix: str = "") -> Path:
    text = command("bench-unified", "manifest", "--device", DEVICE, "--only", prefix).out
    for name, value in (
        ("build", '"v0.13.0"'),
        ("cuda_driver", "13010"),
        ("power_limit_w", "450"),
        ("sm_clock_mhz", "2400"),
        ("date", '"2026-09-27"'),
        ("gpu", '"0f3a"'),
    ):
        text = text.replace(f'{name} = ""', f"{name} = {value}").replace(f"{name} = 0", f"{name} = {value}")
    lines = []
    for line in text.splitlines():
        lines.append(line)
        if line == "files = [" and not prefix:
            number, table = lines[-3].split()[-1], lines[-2].split('"')[1]
            lines.append(f'  "round-{number}-{table}/times_table.csv",')
    path = folder / "rounds.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_lab_run_of_every_benchmark_gives_back_the_built_in_bands(
    checkout: Path, tmp_path: Path, command: Command
) -> None:
    bands = _built_in(checkout)
    _write_lab(tmp_path, bands)
    manifest = _manifest(command, tmp_path)
    first = command("bench-unified", "import", "--manifest", manifest, "--root", checkout)
    assert (first.code, [line.rpartition(", ")[2] for line in first.out.splitlines()]) == (0, ["written", "written"])
    again = command("bench-unified", "import", "--manifest", manifest, "--root", checkout)
    assert [line.rpartition(", ")[2] for line in again.out.splitlines()] == ["unchanged", "unchanged"]
    result = command("select", "--json", "--root", checkout)
    assert (result.code, result.err) == (0, "")
    (device,) = json.loads(result.out)["devices"]
    assert len(device["keys"]) == 26
    chosen = {key: item["bands"] for key, item in device["keys"].items() if item["bands"] and key in KEYS}
    assert chosen == {key: [list(band) for band in value] for key, value in bands.items()}
    assert {key for key, item in device["keys"].items() if item["bands"] is None} == set()
    assert command("derive", "--write", "--root", checkout).code == 0
    assert _built_in(checkout) == bands
    plan = json.loads(command("plan", "--json", "--root", checkout).out)
    counts = {card["hardware_class"]: set(card["unified_rounds"].values()) for card in plan}
    assert counts["nvidia-geforce-rtx-5090-sm120"] == {2}
    assert counts["nvidia-geforce-rtx-3090-sm86"] == {0}


def test_a_selection_reaches_the_table_and_names_its_rounds(checkout: Path, tmp_path: Path, command: Command) -> None:
    _write_lab(tmp_path, {}, "unified/bf16_linear_add")
    manifest = _manifest(command, tmp_path, "unified/bf16_linear_add")
    assert "unified/bf16_linear_add" in _built_in(checkout)
    command("bench-unified", "import", "--manifest", manifest, "--root", checkout)
    answers = json.loads(command("derive", "--write", "--json", "--root", checkout).out)
    (device,) = [item for item in answers["devices"] if DEVICE.startswith(item["hardware_class"] + "/")]
    folder = "nvidia-geforce-rtx-5090-sm120/rounds"
    assert device["keys"]["unified/bf16_linear_add"] == {
        "bands": [],
        "file": f"{folder}/170sm-round-1.json, {folder}/170sm-round-2.json",
        "source": "selected from two rounds",
    }
    assert "unified/bf16_linear_add" not in _built_in(checkout)


def _import_pair(checkout: Path, tmp_path: Path, command: Command, where: tuple[int, str], unified: float) -> Result:
    number, table = where
    lines = "".join(
        f"T={width} median={legacy if table == 'legacy' else legacy * unified:.3f} us\n"
        for width, legacy in ((1, 100), (2, 200), (4, 300))
    )
    files = []
    for k in (2048, 5120):
        path = tmp_path / f"{number}-{table}-ninfer_linear_pair_bench-{k}.txt"
        path.write_text(lines, encoding="utf-8")
        files.append(path)
    results = [
        command(
            "bench-unified", "import", "--device", DEVICE, "--round", str(number), "--table", table, "--with",
            f"k={path.stem.rpartition('-')[2]}", *CONDITIONS, "--root", checkout, path,
        )
        for path in files
    ]  # fmt: skip
    return results[-1]


def test_one_table_of_one_round_at_a_time(checkout: Path, tmp_path: Path, command: Command) -> None:
    result = _import_pair(checkout, tmp_path, command, (1, "legacy"), 0.95)
    assert result.out == (
        "builtin_profiles/sources/measured/nvidia-geforce-rtx-5090-sm120/rounds/170sm-round-1.json: 6 times, written\n"
    )
    _import_pair(checkout, tmp_path, command, (1, "unified"), 0.95)
    text = command("select", "--root", checkout).out
    assert text.splitlines()[0] == f"{DEVICE} unified/q8_linear_pair: not decided"
    assert text.splitlines()[1] == "      1 round missing: round 2 is not there; 2 rounds are needed"
    _import_pair(checkout, tmp_path, command, (2, "legacy"), 0.95)
    _import_pair(checkout, tmp_path, command, (2, "unified"), 0.95)
    text = command("select", "--root", checkout).out
    assert text.splitlines()[:2] == [
        f"{DEVICE} unified/q8_linear_pair: u4",
        "      1 qualifies: gain 1.0526 over 2 cases, q8 1024+1024x2048 takes 0.9500 times the legacy time",
    ]
    assert "  widths of the common grid that no round ran: 3, 5, 6, 7, 8," in text
    assert command("select", "--bands", "--root", checkout).out == f"{DEVICE} unified/q8_linear_pair: u4\n"


def test_what_if_lists_cells_that_would_move(checkout: Path, tmp_path: Path, command: Command) -> None:
    for number in (1, 2):
        for table in Table:
            _import_pair(checkout, tmp_path, command, (number, table), 0.98)
    result = command("select", "--what-if", "min_gain=0.02", "--root", checkout)
    lines = result.out.splitlines()
    assert lines[0] == (
        "under the two-round rule: 2 rounds a table, gain at least 1.02 over the cases, no case's loss above 1.03, "
        "ties under 2 us, 2 widths a band"
    )
    assert lines[1:4] == [
        f"{DEVICE} unified/q8_linear_pair width 1:",
        "  now     average gain too small: gain 1.0204 over 2 cases is under 1.03",
        "  what if qualifies: gain 1.0204 over 2 cases, q8 1024+1024x2048 takes 0.9800 times the legacy time",
    ]
    assert lines[-1] == "3 cells would take another route"
    same = command("select", "--what-if", "max_loss=0.05", "--json", "--root", checkout)
    assert json.loads(same.out)["moved"] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("margin=1", "expected NAME=VALUE with one of min_gain, max_loss, tick_us, rounds, least_widths"),
        ("min_gain=much", "'much' is not a float"),
        ("min_gain=nan", "expected a number from 0"),
        ("rounds=0", "expected a number from 1 to 1000"),
        ("rounds=99999999999999999999", "expected a number from 1 to 1000"),
        ("least_widths=1001", "expected a number from 1 to 1000"),
    ],
)
def test_a_what_if_of_no_number_is_a_usage_error(checkout: Path, command: Command, text: str, message: str) -> None:
    result = command("select", "--what-if", text, "--root", checkout)
    assert (result.code, result.err) == (2, f"python -m generator select: --what-if '{text}': {message}\n")


def test_select_without_rounds_says_what_to_do(checkout: Path, command: Command) -> None:
    result = command("select", "--root", checkout)
    assert (result.code, result.out) == (0, "")
    assert result.err.endswith("bring some in with `bench-unified import`\n")


def test_pictures_are_written_once(checkout: Path, tmp_path: Path, command: Command) -> None:
    for number in (1, 2):
        for table in Table:
            _import_pair(checkout, tmp_path, command, (number, table), 0.95)
    command("select", "--picture", tmp_path / "pictures", "--root", checkout)
    (path,) = (tmp_path / "pictures").iterdir()
    assert path.name == "nvidia-geforce-rtx-5090-sm120-170sm-unified-q8_linear_pair.svg"
    again = command("select", "--picture", tmp_path / "pictures", "--root", checkout)
    assert again.err == ""


def test_only_skipped_outputs_change_nothing(checkout: Path, root: Path, command: Command) -> None:
    file = root / "tests/golden/bench/skipped.txt"
    result = command(
        "bench-unified", "import", "--device", DEVICE, "--round", "1", "--table", "legacy", "--root", checkout, file
    )
    assert (result.code, result.out, result.err) == (
        1,
        "",
        (
            f"python -m generator bench-unified: {DEVICE}: no output holds a time (2 notes); expected rows of a "
            "benchmark program. A program that printed SKIP found no GPU: run it again\n"
        ),
    )


def test_a_broken_file_of_a_set_changes_nothing(checkout: Path, tmp_path: Path, command: Command) -> None:
    _write_lab(tmp_path, {}, "unified/bf16_linear_add")
    manifest = _manifest(command, tmp_path, "unified/bf16_linear_add")
    broken = tmp_path / "round-2-unified/ninfer_bf16_linear_add_bench.csv"
    broken.write_bytes(broken.read_bytes()[:-9])
    result = command("bench-unified", "import", "--manifest", manifest, "--root", checkout)
    assert result.code == 1
    assert result.err.endswith(
        "the file ends inside a line, so it was cut off; copy it again, or run the benchmark again\n"
    )
    assert not list((checkout / "builtin_profiles/sources").glob("measured/*/rounds/*"))


def test_a_committed_grid_leaves_cases_out(checkout: Path, tmp_path: Path, command: Command) -> None:
    for number in (1, 2):
        for table in Table:
            _import_pair(checkout, tmp_path, command, (number, table), 0.95)
    folder = checkout / "builtin_profiles/sources/measured/nvidia-geforce-rtx-5090-sm120/rounds"
    (folder / "grid.toml").write_text('[keys]\n"unified/q8_linear_pair" = [2, 4]\n', encoding="utf-8")
    assert command("select", "--bands", "--root", checkout).out == f"{DEVICE} unified/q8_linear_pair: -1 u4\n"
    wide = tmp_path / "wide.toml"
    wide.write_text("widths = [1, 2, 3, 4]\n", encoding="utf-8")
    result = command("select", "--bands", "--grid", wide, "--root", checkout)
    assert result.out == f"{DEVICE} unified/q8_linear_pair: u2\n"


def test_commands_run_the_tables_in_the_rounds_order(command: Command) -> None:
    for number, first in ((1, "legacy"), (2, "unified")):
        lines = command(
            "bench-unified", "commands", "--device", "nvidia-geforce-rtx-3090-sm86/82", "--round", str(number),
            "--only", "unified/fp8_linear_add",
        ).out.splitlines()  # fmt: skip
        assert lines[3] == f"mkdir -p round-{number}-{first}"
        assert lines[4] == (
            f"NINFER_LINEAR_ROUTES={first} ninfer_benches ninfer_fp8_linear_add_bench --k 6144 --policy a16 --t-sweep "
            "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,20,24,28,32,40,48,56,64,96,128,192,256,384,512,768,1024 "
            f"--csv-out round-{number}-{first}/ninfer_fp8_linear_add_bench-k-6144-policy-a16.csv"
        )
        assert len(lines) == 3 + 2 * 3


def test_an_execution_is_asked_of_every_program_that_has_a_choice(command: Command) -> None:
    words = ("--device", DEVICE, "--execution", "graph")
    lines = command("bench-unified", "commands", "--round", "1", *words).out.splitlines()
    runs = [line.split() for line in lines if "ninfer_benches" in line]
    asked = {run[2] for run in runs if "--execution" in run}
    assert asked == {
        "ninfer_attn_input_proj_bench",
        "ninfer_context_kv_materialize_bench",
        "ninfer_gdn_input_proj_bench",
        "ninfer_gdn_input_proj_conv_snapshot_bench",
        "ninfer_linear_pair_bench",
        "ninfer_q4_linear_swiglu_bench",
        "ninfer_q5_linear_add_bench",
        "ninfer_q8_linear_swiglu_bench",
    }
    text = command("bench-unified", "manifest", *words).out
    assert text.splitlines()[:2] == [f'device = "{DEVICE}"', 'execution = "graph"']
    pair = next(line for line in text.splitlines() if "linear_pair" in line)
    assert pair.endswith('k = "2048", execution = "graph" },')


def test_cards_before_blackwell_run_no_a8_and_no_a4() -> None:
    ampere, blackwell = commands_of(parse_device("nvidia-geforce-rtx-3090-sm86/82")), commands_of(parse_device(DEVICE))
    assert not [command for command in ampere if "a8" in command.words or "a4" in command.words]
    assert len(blackwell) - len(ampere) == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--device", DEVICE),
            ("import: no round, table, file; give files with --device, --round and --table, or --manifest"),
        ),
        (
            ("--device", DEVICE, "--manifest", "m.toml"),
            (
                "--manifest 'm.toml' beside files, --device, --round or --table; the manifest names them all. Leave "
                "one of the two out"
            ),
        ),
        (
            ("--device", DEVICE, "--round", "1", "--table", "legacy", "--with", "2048", "a.csv"),
            "--with '2048'; expected NAME=VALUE, such as k=2048",
        ),
    ],
)
def test_an_import_that_names_too_little_is_a_usage_error(
    checkout: Path, command: Command, words: tuple[str, ...], message: str
) -> None:
    result = command("bench-unified", "import", *words, "--root", checkout)
    assert (result.code, result.err) == (2, f"python -m generator bench-unified: {message}\n")


def test_a_round_that_the_rule_does_not_have_is_a_usage_error(command: Command) -> None:
    words = ("bench-unified", "commands", "--device", "nvidia-geforce-rtx-3090-sm86/82", "--round", "3")
    result = command(*words)
    assert (result.code, result.out) == (2, "")
    assert "argument --round: invalid choice: 3 (choose from 1, 2)" in result.err


def test_the_script_shows_each_command_and_ends_at_the_first_that_fails(command: Command, tmp_path: Path) -> None:
    words = ("--device", "nvidia-geforce-rtx-3090-sm86/82", "--round", "1", "--only", "unified/fp8_linear_add")
    script = command("bench-unified", "commands", *words).out
    (tmp_path / "ninfer_benches").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "ninfer_benches").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 3
    shown = ran.stderr.splitlines()
    assert shown[0] == "+ mkdir -p round-1-legacy"
    assert "ninfer_fp8_linear_add_bench --k 6144" in shown[-1]
    assert len([line for line in shown if "ninfer_fp8" in line and line.startswith("+")]) <= 2
