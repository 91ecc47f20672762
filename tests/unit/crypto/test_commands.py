"""The commands for keys and sealed texts."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner, Result

from perdure._crypto.keyring import Keyring, keyring
from perdure.cli import cli
from perdure.errors import InvalidInput, InvalidSetting
from perdure.settings import settings


def run(*arguments: str, given: str = "") -> Result:
    """One command in this process."""
    return CliRunner().invoke(cli, arguments, input=given)


def test_a_key_that_was_made_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", ",".join(run("key", each).stdout.strip() for each in ("new", "old")))
    keys = keyring(settings())
    assert isinstance(keys, Keyring)
    assert keys.ids == ("new", "old")
    assert run("key").stdout != run("key").stdout
    assert run("key", "a:b").exit_code == 2


def test_texts_are_sealed_and_opened_again_one_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", run("key", "k").stdout.strip())
    sealed = run("seal", "dose", "7", given="+15550100123\n\nzwölf\n").stdout
    assert [line.rpartition(":")[0] for line in sealed.splitlines()] == ["perdure-sealed:2:k:"] * 3
    assert run("seal", "dose", "7", given=sealed).stdout == sealed
    assert run("unseal", "dose", "7", given=sealed + "plain\n").stdout == "+15550100123\n\nzwölf\nplain\n"
    assert run("unseal", "dose", "7", given=run("seal", "dose", "7", given="a\r\n").stdout).stdout == "a\n"
    assert "perdure-sealed:2:k:to:" in run("seal", "dose", "7", "--field", "to", given="+15550100123\n").stdout


def test_texts_of_another_entity_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", run("key", "k").stdout.strip())
    sealed = run("seal", "dose", "7", "--field", "to", given="+15550100123\n").stdout
    end = run("unseal", "dose", "8", given=sealed)
    assert isinstance(end.exception, InvalidInput)
    assert str(end.exception).startswith("line 1: the key 'k' does not open it for dose/8")


@pytest.mark.parametrize("command", ["seal", "unseal"])
def test_a_line_that_only_begins_as_sealed_is_named_by_its_number_alone(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_KEYS", run("key", "k").stdout.strip())
    end = run(command, "dose", "7", given="plain\nperdure-sealed:2:k::a-secret\n")
    assert isinstance(end.exception, InvalidInput)
    assert str(end.exception).startswith("line 2: ")
    assert "a-secret" not in str(end.exception)


@pytest.mark.parametrize("command", ["seal", "unseal"])
def test_without_keys_it_says_how_to_get_one(command: str) -> None:
    assert isinstance(error := run(command, "dose", "7").exception, InvalidSetting)
    assert "`perdure key` makes one" in str(error)


def test_a_token_is_shown_once_and_only_its_hash_is_for_the_file() -> None:
    end = run("codec-token", "ann")
    assert end.stdout.startswith("ann sha256:")
    assert end.stderr.startswith("perdure: for ann, shown once: ")
    assert end.stderr.split()[-1] not in end.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "choose who may decode"),
        (("--jwks", "https://sso.example/keys"), None),
        (("--jwks", "https://sso.example/keys", "--audience", "a", "--issuer", "i", "--origin", "*"), "is no origin"),
    ],
)
def test_a_codec_server_that_is_not_safe_does_not_start(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str | None
) -> None:
    monkeypatch.setenv("PERDURE_KEYS", run("key", "k").stdout.strip())
    monkeypatch.setattr("perdure.cli.encryption.stop_at_once", lambda: None)
    monkeypatch.setattr("perdure.cli.encryption.set_up", lambda *_: None)
    end = run("codec-server", *arguments)
    if why is None:
        assert (end.exit_code, "needs --audience and --issuer" in " ".join(end.output.split())) == (2, True)
    else:
        assert isinstance(end.exception, InvalidSetting)
        assert why in str(end.exception)
