"""What the documentation shows is what happens."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from ninfer_device_profiles import Band, Calibration, Device, Profile, layer_bands

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def measure(device: Device) -> Profile:
    return Profile(
        hardware_class="set by start-up",
        calibration=Calibration(route_catalog=DIGEST),
        routes={f"key{place}": (Band(1, ""),) for place in range(67)},
    )


@pytest.mark.parametrize("name", ["docs/library.md", "builtin_profiles/README.md"])
def test_the_code_of_a_page_runs_in_order_and_gives_what_its_comments_say(
    root: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NINFER_DEVICE_PROFILES", str(tmp_path / "p.json"))
    text = (root / name).read_text(encoding="utf-8")
    entry = Profile(hardware_class="nvidia-geforce-rtx-3090-sm86", multiprocessors=82, routes={"k": (Band(1, "a"),)})
    names: dict[str, Any] = {"measure": measure, "entry": entry}
    for block in blocks(text, "python"):
        if "restore_profile" in block:  # something to restore
            names["profiles"].store_profile(
                Profile(hardware_class=entry.hardware_class, multiprocessors=82), names["place"].path
            )
        exec(compile(block, name, "exec"), names)
        for expression, said in re.findall(r"^(\w[\w.]*\([^#]*?)\s*#\s*([\d'\"]\S*)$", block, flags=re.MULTILINE):
            assert repr(eval(expression, names)) == said.rstrip(":"), expression
    printed = capsys.readouterr().out
    assert all(line in text for line in printed.splitlines())


def test_the_layering_table_of_the_format_page_holds(root: Path) -> None:
    rows = re.findall(
        r"^\| `(\[\[.*?\]\])` \| `(\[\[.*?\]\])` \| `(\[\[.*?\]\])` \|$",
        (root / "docs/format.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert len(rows) == 3
    for row in rows:
        upper, lower, joined = (tuple(Band(*pair) for pair in json.loads(cell)) for cell in row)
        assert layer_bands(upper, lower) == joined


def test_the_document_of_the_format_page_is_the_beginning_of_the_real_file(root: Path, shared_data: Path) -> None:
    shown = blocks((root / "docs/format.md").read_text(encoding="utf-8"), "json")[0]
    assert (shared_data / "profiles" / "rtx3060-calibrated.json").read_text(encoding="utf-8").startswith(shown)
