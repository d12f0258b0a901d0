"""The cycle collector is left as it was found, whatever happens inside."""

from __future__ import annotations

import gc

import pytest

from generator.core.uncollected import uncollected


def test_collector_is_off_inside_and_on_again_after_an_error() -> None:
    assert gc.isenabled()
    seen: list[bool] = []

    def fail() -> None:
        with uncollected():
            seen.append(gc.isenabled())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [False]
    assert gc.isenabled()


def test_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
