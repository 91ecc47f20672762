"""Which version of the site a tag makes, and whether readers without a version are sent to it."""

from __future__ import annotations

import pytest

from infra.site.versions import deployment


def test_the_first_release_is_the_latest() -> None:
    assert deployment("v0.5.0", []) == ["0.5", "latest"]


def test_a_patch_replaces_the_version_of_its_minor_release() -> None:
    assert deployment("v0.5.1", ["0.4", "0.5"]) == ["0.5", "latest"]


def test_versions_are_compared_as_numbers() -> None:
    assert deployment("v0.10.0", ["0.9"]) == ["0.10", "latest"]


def test_a_patch_of_an_older_release_leaves_the_latest() -> None:
    assert deployment("v0.4.3", ["0.4", "0.5"]) == ["0.4"]


@pytest.mark.parametrize("tag", ["v0.6.0rc1", "v0.6.0.dev2"])
def test_a_pre_release_is_not_the_latest(tag: str) -> None:
    assert deployment(tag, ["0.5"]) == ["0.6"]


@pytest.mark.parametrize("tag", ["", "0.5.0", "v0.5", "docs"])
def test_other_tags_are_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="is not the tag of a release"):
        deployment(tag, [])
