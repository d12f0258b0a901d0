"""The command ``ninfer-profiles``: what it prints and with what it ends."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.cli import EXIT_CODES, VERBS, main, run
from ninfer_device_profiles.commands.surroundings import Surroundings, printable
from ninfer_device_profiles.document import Calibration, Profile, parse_document
from ninfer_device_profiles.store import store_profile

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from collections.abc import Mapping

WHEEL = Path(__file__).parent.parent.parent / "builtin_profiles"
RTX_3090 = ("--name", "NVIDIA GeForce RTX 3090", "--capability", "8.6", "--sms", "82")
KEY = "q6_head/248320x5120"


@dataclass
class Command:
    """Runs the command in a made-up environment."""

    package: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.home / ".cache" / "ninfer" / "device-profiles.json"

    def __call__(self, *words: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        around = Surroundings(
            out=out,
            environment={"HOME": str(self.home), **(environment or {})},
            platform="linux",
            package=self.package,
        )
        return run(words, around, err), out.getvalue(), err.getvalue()

    def json(self, *words: str) -> Any:
        code, out, err = self(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    def store(self, sms: int = 82, origin: str = "calibration", digest: str = DIGEST) -> None:
        block = Calibration(route_catalog=digest, ninfer_build="796f985", date="2026-10-06T13:11:18Z")
        store_profile(
            Profile(
                hardware_class="nvidia-geforce-rtx-3090-sm86",
                multiprocessors=sms,
                origin=origin,
                calibration=block,
                routes={KEY: (Band(2, "gemv"), Band(8, ""))},
            ),
            self.file,
        )


@pytest.fixture
def command(package: Path, tmp_path: Path) -> Command:
    return Command(package=package, home=tmp_path)


def test_path_says_which_file_and_why(command: Command) -> None:
    why = "HOME names its folder; NINFER_DEVICE_PROFILES, XDG_CACHE_HOME are unset or empty"
    assert command("path") == (
        0,
        f"{command.file}\n  why       {why}\n  state     absent\n  replaced  0 kept\n",
        "",
    )
    command.store()
    assert command.json("path") == {
        "entries": 1,
        "path": str(command.file),
        "reason": why,
        "replaced": 0,
        "source": "HOME",
        "state": "1 entry",
    }
    command.file.write_text("{")
    assert command.json("path")["state"].startswith(f"not readable: {command.file}: line 1 column 2: invalid JSON")


def test_list_says_which_entry_is_in_force(command: Command) -> None:
    command.store()
    command.store(sms=80, digest="33f546be871d5bec")
    rows = command.json("list")
    assert [(row["layer"], row["multiprocessors"], row["state"].split(":")[0]) for row in rows] == [
        ("profile file", 82, "in force"),
        ("profile file", 80, str(command.file)),
        ("built-in table", 82, "in force, under the profile file's entry"),
        *(("built-in table", sms, "in force") for sms in (128, 170, 188, 188, 188)),
    ]
    code, out, _ = command("list")
    assert code == 0
    assert out.splitlines()[1].split() == [
        "profile", "file", "nvidia-geforce-rtx-3090-sm86", "82", "1",
        "2026-10-06T13:11:18Z", "796f985", DIGEST, "in", "force",
    ]  # fmt: skip


def test_show_prints_the_joined_layers_or_one(command: Command) -> None:
    command.store()
    code, out, err = command("show", *RTX_3090, "--key", "q6")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "nvidia-geforce-rtx-3090-sm86, 82 SMs"
    assert out.splitlines()[1].startswith("  origin    calibration over built in: RTX 3090")
    assert out.splitlines()[-1] == f"{KEY}  1-2 gemv, 3-18 compiled, 19-20 small_t"
    assert set(command.json("show", *RTX_3090, "--layer", "file")["routes"]) == {KEY}
    assert len(command.json("show", *RTX_3090, "--layer", "builtin")["routes"]) == 57
    code, out, _ = command("show", *RTX_3090, "--layer", "file", "--document")
    assert parse_document(out, "p").devices[0].routes == {KEY: ((2, "gemv"), (8, ""))}


def test_show_of_an_absent_device_names_what_is_near(command: Command) -> None:
    assert command("show", "--class", "nvidia-geforce-rtx-3090-sm86", "--sms", "80") == (
        1,
        "",
        (
            "ninfer-profiles: nvidia-geforce-rtx-3090-sm86 with 80 SMs: no entry in either layer; "
            "list what there is with `ninfer-profiles list`. "
            "Near: nvidia-geforce-rtx-3090-sm86 in the built-in table (same class, 82 SMs instead of 80).\n"
        ),
    )


def test_explain_says_which_layer_answers(command: Command) -> None:
    command.store()
    code, out, err = command("explain", KEY, "2", *RTX_3090)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{KEY} at 2 on nvidia-geforce-rtx-3090-sm86 (82 SMs): gemv",
        "  answered by     profile file; a candidate of the key, legal at this width",
        "  profile file    gemv for 1 to 2 (calibration)",
        (
            "  built-in table  gemv for 1 to 2 "
            "(built in: RTX 3090 at 390 W, 2026-09-25; unified routes and two-stage GDN at 420 W, 2026-09-27)"
        ),
        "  compiled route  answers where no layer does",
        (
            f"  file            {command.file} "
            "(HOME names its folder; NINFER_DEVICE_PROFILES, XDG_CACHE_HOME are unset or empty)"
        ),
    ]


def test_explain_includes_the_environment_and_the_option(command: Command) -> None:
    words = ("explain", "attn_prompt_fast", "1", *RTX_3090)
    _, out, _ = command(*words, environment={"NINFER_PROMPT_FAST": "0"})
    assert "on nvidia-geforce-rtx-3090-sm86 (82 SMs): compiled route\n" in out
    assert "  answered by     NINFER_PROMPT_FAST; it wins over every layer\n" in out
    _, out, _ = command(*words, "--fast-prefill-kernel", environment={"NINFER_PROMPT_FAST": "0"})
    assert "  answered by     --fast-prefill-kernel; it wins over every layer\n" in out
    code, _, err = command(*words, environment={"NINFER_T2_I8_SMALL": "x"})
    assert code == 1
    assert err.startswith("ninfer-profiles: NINFER_T2_I8_SMALL: 'x'; ")


def test_explain_of_an_unknown_device_names_what_is_near(command: Command) -> None:
    code, out, _ = command("explain", KEY, "2", *RTX_3090[:-1], "80")
    assert code == 0
    near = "nvidia-geforce-rtx-3090-sm86 in the built-in table: same class, 82 SMs instead of 80"
    assert f"  near            {near}\n" in out


def test_shadow_reports_the_file_against_the_table(command: Command) -> None:
    code, _, err = command("shadow")
    assert code == 1
    assert "absent, so it hides nothing" in err
    command.store()
    code, out, err = command("shadow", *RTX_3090)
    assert (code, err) == (0, "")
    assert out.splitlines()[:4] == [
        f"{command.file}: 1 entry",
        "",
        "nvidia-geforce-rtx-3090-sm86, 82 SMs",
        "  in force",
    ]
    assert out.splitlines()[-2:] == [
        "  1 key hiding a built-in choice, which may be the better one (neither is timed here)",
        f"    {KEY} 3: compiled instead of small_t",
    ]
    assert command.json("shadow")["entries"][0]["keys"] == {
        KEY: {"seam": None, "shadow": "hides", "spans": [{"builtin": "small_t", "file": "", "first": 3, "last": 3}]}
    }


def test_shadow_names_seams_added_keys_and_near_misses(command: Command) -> None:
    block = Calibration(route_catalog=DIGEST)
    for sms in (82, 80):
        store_profile(
            Profile(
                hardware_class="nvidia-geforce-rtx-3090-sm86",
                multiprocessors=sms,
                calibration=block,
                routes={
                    KEY: (Band(2, ""),),
                    "t2_i8_route": (Band(192, "tile"),),
                    "attn_pack_gqa": (Band(1, ""),),
                    "attn_pv_f16": (Band(1, "on"),),
                },
            ),
            command.file,
        )
    _, out, _ = command("shadow", *RTX_3090)
    assert out.splitlines()[3:] == [
        "  in force",
        "  over built in: RTX 3090 at 390 W, 2026-09-25; unified routes and two-stage GDN at 420 W, 2026-09-27",
        "  near: nvidia-geforce-rtx-3090-sm86 in the profile file: same class, 80 SMs instead of 82",
        "  1 key hiding a built-in choice, which may be the better one (neither is timed here)",
        f"    {KEY} 1-2: compiled instead of gemv",
        f"    {KEY}: past width 2 the built-in bands answer again",
        "  1 key saying what the built-in table says, so not needed",
        "    attn_pv_f16",
        "  2 keys that the built-in table does not name",
        "    attn_pack_gqa: compiled throughout",
        "    t2_i8_route: 1-192 tile",
    ]
    _, out, _ = command("shadow", *RTX_3090[:-1], "80")
    assert "  the built-in table has no entry of this device" in out.splitlines()


def test_a_damaged_file_of_replaced_entries_does_not_hide_the_path(command: Command) -> None:
    command.store()
    command.file.with_name(command.file.name + ".replaced").write_text("broken")
    assert command("path")[0] == 0
    code, out, err = command("list", "--replaced")
    assert (code, out) == (1, "")
    assert "invalid JSON" in err


def test_there_may_be_no_entries_at_all(command: Command) -> None:
    assert command("list", "--replaced") == (0, "no entries\n", "")
    assert command("path", "--file", "a\0b")[1].splitlines()[2] == "  state     absent"


CHECK = "check that path or stream, its permissions and the free space."


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            OSError(5, "Input/output error"),
            1,
            f"ninfer-profiles: stdout: Input/output error; {CHECK}\n",
        ),
        (BrokenPipeError(), 1, ""),
        (KeyboardInterrupt(), 130, "ninfer-profiles: interrupted\n"),
    ],
)
def test_what_the_system_raises_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setitem(VERBS, "verify", (VERBS["verify"][0], fail))
    assert command("verify") == (code, "", line)


def test_sizes_shows_the_chunk_that_the_engine_would_really_use(command: Command) -> None:
    code, out, err = command("sizes", *RTX_3090)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "nvidia-geforce-rtx-3090-sm86, 82 SMs, 24 query heads, int8 cache",
        "  prefill chunk       1280 tokens for a request of 1024 (share of whole waves used: 0.780 -> 0.976)",
        "  alignment           on",
        "  fast prompt kernel  on, by profile",
        "  small-T attention splits of a full window, one row:",
        "    window  1 wide  2 wide  3 wide  4 wide  5 wide  6 wide  7 wide  8 wide",
        "    8192    41      41      41      41      41      20      20      20",
        "    65536   41      41      41      41      41      41      41      41",
        "    262144  82      82      82      82      82      82      82      82",
    ]
    found = command.json("sizes", *RTX_3090, "--prefill-chunk", "2048", "--kv", "bf16")
    assert (found["chunk"], found["fast_prompt_kernel"]) == (2048, {"by": "not offered", "on": False})
    _, out, _ = command("sizes", *RTX_3090, environment={"NINFER_PREFILL_ALIGN": "0", "NINFER_PROMPT_FAST": "0"})
    assert "1024 tokens for a request of 1024 (share of whole waves used: 0.937 -> 0.937)" in out
    assert "  alignment           off, by NINFER_PREFILL_ALIGN\n" in out
    assert "  fast prompt kernel  off, by NINFER_PROMPT_FAST\n" in out
    assert command("sizes", *RTX_3090, "--prefill-chunk", "0")[0] == 2
    assert command("sizes", *RTX_3090[:-1], "0")[2] == (
        "ninfer-profiles: sms: 0; a size is computed from positive counts. Pass a count of 1 or more.\n"
    )


def test_restore_brings_the_replaced_entry_back(command: Command) -> None:
    command.store(origin="first")
    command.store(origin="second")
    assert [row["origin"] for row in command.json("list", "--replaced")] == ["first"]
    code, out, _ = command("restore", *RTX_3090)
    assert code == 0
    assert f"has its entry of 2026-10-06T13:11:18Z 796f985 {DIGEST} back" in out
    assert command.json("list")[0]["origin"] == "first"
    assert command("restore", "--class", "x", "--sms", "1")[0] == 1


def test_validate_reports_errors_and_warnings(command: Command, tmp_path: Path) -> None:
    command.store(digest="33f546be871d5bec")
    code, out, _ = command("validate", str(command.file))
    assert code == 0
    assert out.splitlines() == [
        (
            "warning: ['devices'][0]['calibration']['route_catalog']: 33f546be871d5bec was measured by build 796f985; "
            f"a build with catalog {DIGEST} ignores the entry"
        ),
        f"{command.file}: valid, 1 entry, 1 warning",
    ]
    assert command("validate", str(command.file), "--strict")[0] == 1
    bad = tmp_path / "bad.json"
    bad.write_text('{"schema": 1, "schema": 2}')
    code, out, err = command("validate", str(bad))
    assert (code, out) == (1, "")
    assert err == (
        f"ninfer-profiles: {bad}: key 'schema' appears twice; an object has each key once (the engine silently takes "
        "the last). Correct it there, or remove the file and recalibrate.\n"
    )
    code, out, err = command("validate", str(bad), "--json")
    assert (code, err, json.loads(out)["valid"]) == (1, "", False)


def test_validate_takes_the_builtin_table_without_calibration_blocks(command: Command) -> None:
    found = command.json("validate", "--builtin", str(command.package / "device_profiles.json"))
    assert [item["rule"] for item in found["findings"]] == ["schedule is not legal at a width"]


def test_verify_rechecks_the_package(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("verify")
    assert code == 0
    assert all(line.startswith("ok     ") for line in out.splitlines())
    assert len(out.splitlines()) == 8
    assert command.json("verify")["holds"] is True
    empty = Command(package=tmp_path, home=tmp_path)
    code, out, _ = empty("verify")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == ["FAILED build info", "FAILED catalog", "FAILED table"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show",), "no device is named. Give --class and --sms, or --name, --capability and --sms."),
        (
            ("show", "--class", "c"),
            "a device is named by --class and --sms, or by --name, --capability and --sms. Give one whole set.",
        ),
        (
            ("show", "--class", "c", "--sms", "1", "--name", "n"),
            "a device is named by --class and --sms, or by --name, --capability and --sms. Give one whole set.",
        ),
        (
            ("show", "--name", "n", "--capability", "86", "--sms", "1"),
            "--capability: '86'; it is major.minor, as 8.6. Correct it.",
        ),
    ],
)
def test_half_a_device_is_a_usage_error(command: Command, words: tuple[str, ...], message: str) -> None:
    assert command(*words) == (2, "", f"ninfer-profiles: {message}\n")


def test_arguments_that_do_not_fit_end_with_2(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command()[0] == 2
    assert command("explain", "k", "0", *RTX_3090)[0] == 2
    assert command("explain", "k", "wide", *RTX_3090)[0] == 2
    assert command("absent")[0] == 2
    assert "usage: ninfer-profiles" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_every_help_documents_the_exit_codes(verb: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*([verb] if verb else []), "--help"]) == 0
    assert EXIT_CODES in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_verb_and_option(command: Command, shell: str) -> None:
    code, out, _ = command("completion", shell)
    assert code == 0
    assert all(verb in out for verb in VERBS)
    assert "fast-prefill-kernel" in out


def test_the_bash_completion_completes(command: Command, tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(command("completion", "bash")[1])
    ask = (
        f"source {script}; COMP_WORDS=(ninfer-profiles show --l); COMP_CWORD=2; _ninfer_profiles; "
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(ninfer-profiles ve); COMP_CWORD=1; _ninfer_profiles; '
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "--layer\nverify\n"


def test_text_from_a_file_cannot_steer_the_terminal(command: Command) -> None:
    command.store(origin="a\x1b[31m\nred\u202e")
    code, out, _ = command("show", *RTX_3090, "--layer", "file")
    assert code == 0
    assert out.splitlines()[1] == "  origin    a\\x1b[31m\\nred\\u202e"
    assert printable("é\t\udcff") == "é\\t\\udcff"


@pytest.mark.parametrize("words", [("list",), ("show", *RTX_3090), ("explain", KEY, "2", *RTX_3090), ("shadow",)])
@pytest.mark.parametrize("state", ["not json", "directory", "fifo"])
def test_a_file_that_cannot_be_read_is_one_line_or_a_note(command: Command, words: tuple[str, ...], state: str) -> None:
    command.file.parent.mkdir(parents=True)
    if state == "directory":
        command.file.mkdir()
    elif state == "fifo":
        os.mkfifo(command.file)
    else:
        command.file.write_text("{")
    code, out, err = command(*words)
    if words[0] in {"show", "explain"}:
        assert code == 0
        assert f"device profile file skipped: {command.file}: " in out
    else:
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(f"ninfer-profiles: {command.file}: ")


def test_a_closed_pipe_is_no_traceback() -> None:
    environment = {**os.environ, "PYTHONPATH": str(WHEEL)}
    command = f"{sys.executable} -m ninfer_device_profiles verify | true"
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""


def test_explain_says_that_a_key_is_unknown_and_what_is_near(command: Command) -> None:
    code, out, _ = command("explain", "q6_head/248320x512", "2", *RTX_3090)
    assert code == 0
    near = "near: q6_head/248320x5120"
    assert f"  remark          the catalog has no such key, so the engine never asks for it; {near}" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explain", KEY, "x", *RTX_3090), "argument width: 'x': widths are whole numbers from 1 to 2147483647\n"),
        (("explain", KEY, "0", *RTX_3090), "argument width: '0': widths are whole numbers from 1 to 2147483647\n"),
        (
            ("sizes", *RTX_3090, "--max-context", "1e6"),
            "argument --max-context: '1e6': token counts are whole numbers from 1 to 16777216\n",
        ),
    ],
)
def test_a_number_that_does_not_read_says_what_is_expected(
    words: tuple[str, ...], message: str, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*words)[0] == 2
    assert capsys.readouterr().err.endswith(message)
