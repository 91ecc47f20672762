"""`perdure.testing` names an SDK that rehearsals were not tested with, in one sentence."""

from __future__ import annotations

import warnings

import pytest

from perdure.testing.sdk import NEWEST, OLDEST, UnsupportedSDK, check_sdk


def test_an_older_sdk_is_refused_with_the_versions_that_work() -> None:
    older = f"{OLDEST[0]}.{OLDEST[1] - 1}.2"
    with pytest.raises(UnsupportedSDK) as refused:
        check_sdk(older)
    assert str(refused.value) == (
        f"temporalio {older} is too old: perdure.testing was tested with temporalio 1.33 to 1.35; "
        "install one of these for your tests"
    )


def test_a_newer_sdk_is_named_in_a_warning() -> None:
    with pytest.warns(
        UserWarning, match=rf"temporalio 1.{NEWEST[1] + 1}.0 is newer: .* tested with temporalio 1.33 to 1.35"
    ):
        check_sdk(f"1.{NEWEST[1] + 1}.0")


@pytest.mark.parametrize("installed", [None, f"1.{OLDEST[1]}.0", f"1.{NEWEST[1]}.3"])
def test_a_tested_sdk_is_used_without_a_warning(installed: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_sdk(installed)
