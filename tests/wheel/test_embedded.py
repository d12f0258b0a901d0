"""The files that the package carries: written, read back, refused when damaged."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles import embedded
from ninfer_device_profiles.embedded import CatalogCandidate, CatalogKey
from ninfer_device_profiles.errors import EmbeddedError

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path

HEAD = CatalogKey(
    key="q6_head/248320x5120",
    candidates=(CatalogCandidate(schedule="gemv", max_width=2), CatalogCandidate(schedule="small_t", max_width=32)),
)
SWITCH = CatalogKey(
    key="unified/q4_linear_swiglu",
    candidates=(CatalogCandidate(schedule="unified"),),
    calibrated=False,
    acts_under=("q4_linear_swiglu/34816x17408x5120", "small_t_tiled"),
)


def test_catalog_is_written_one_key_a_line_in_byte_order() -> None:
    assert embedded.render_catalog([SWITCH, HEAD]) == (
        '{\n "format": "ninfer.route-catalog",\n "format_version": 1,\n "digest": "0ef159edff80bc82",\n "keys": {\n'
        '  "q6_head/248320x5120": {"calibrated": true, "candidates": [["gemv", 1, 2], ["small_t", 1, 32]]},\n'
        '  "unified/q4_linear_swiglu": {"calibrated": false, "candidates": [["unified", 1, null]], '
        '"acts_under": ["q4_linear_swiglu/34816x17408x5120", "small_t_tiled"]}\n }\n}\n'
    )


def test_the_generators_catalog_comes_back_with_the_engines_digest(
    package: Path, catalog_keys: tuple[CatalogKey, ...]
) -> None:
    catalog = embedded.load_catalog(package)
    assert catalog.digest == catalog.computed_digest() == DIGEST
    assert tuple(catalog.keys.values()) == catalog_keys
    assert embedded.render_catalog(catalog.keys.values()) == (package / embedded.CATALOG).read_text(encoding="utf-8")


def test_a_candidate_is_legal_up_to_its_widest_width() -> None:
    gemv = HEAD.candidate("gemv")
    assert gemv is not None
    assert (gemv.legal(0), gemv.legal(1), gemv.legal(2), gemv.legal(3)) == (False, True, True, False)
    assert HEAD.candidate("absent") is None


def test_build_info_comes_back(package: Path) -> None:
    info = embedded.load_build_info(package)
    assert info.table_sha256 == "3ad04f8cf8264a17daa9a6e637d6e98ace261cd5603b495b77c6544057c31718"
    assert embedded.render_build_info(info) == (package / embedded.BUILD_INFO).read_text(encoding="utf-8")


def test_the_engines_table_is_read_from_the_package(package: Path) -> None:
    assert [entry.multiprocessors for entry in embedded.load_table(package).devices] == [82, 128, 170, 188, 188, 188]


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError) as caught:
        embedded.load_build_info(tmp_path)
    assert str(caught.value) == (
        "build_info.json: not readable in the package (No such file or directory); a whole package carries it. "
        "Reinstall ninfer-device-profiles."
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (embedded.CATALOG, "{"),
        (embedded.CATALOG, "[]"),
        (embedded.CATALOG, '{"format": "ninfer.route-catalog", "format_version": 2}'),
        (embedded.CATALOG, '{"format": "ninfer.route-catalog", "format_version": 1}'),
        (embedded.CATALOG, '{"format": "ninfer.route-catalog", "format_version": 1, "digest": 1, "keys": {}}'),
        (embedded.CATALOG, '{"format": "ninfer.route-catalog", "format_version": 1, "digest": "", "keys": {"k": 1}}'),
        (embedded.CATALOG, '{"format": "ninfer.route-catalog", "format_version": 1, "digest": "", "keys": {"k": {}}}'),
        (embedded.BUILD_INFO, '{"format": "ninfer.profile-build-info", "format_version": 1}'),
        (embedded.BUILD_INFO, "\udcff"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, package: Path, name: str, text: str) -> None:
    folder = tmp_path / "package"
    shutil.copytree(package, folder)
    (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    read = embedded.load_catalog if name == embedded.CATALOG else embedded.load_build_info
    with pytest.raises(EmbeddedError, match=f"^{name}: .*Reinstall ninfer-device-profiles"):
        read(folder)
