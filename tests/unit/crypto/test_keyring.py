"""Keys come from the settings, and each mistake in them is one clear line that shows no key."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import App, PerdurePlugin, Settings
from perdure._crypto.codec import encrypts
from perdure._crypto.keyring import keyring
from perdure.errors import InvalidSetting
from perdure.settings import settings

SECRET = base64.b64encode(b"k" * 32).decode()
SHORT = base64.b64encode(b"k" * 16).decode()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "entry 1 is no key"),
        (SECRET, "entry 1 is no key"),
        (f"a:{SECRET},", "entry 2 is no key"),
        (f"a b:{SECRET}", "entry 1 is no key"),
        (f"a:{SHORT}", "the key 'a' has 16 bytes, and needs 32"),
        (f"a:{SECRET},b:%%%", "the key 'b' is no base64"),
        (f"a:{SECRET},a:{SECRET}", "two keys have the id 'a'"),
    ],
)
def test_keys_that_can_not_be_used_are_said_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, given: str, why: str
) -> None:
    monkeypatch.setenv("PERDURE_KEYS", given)
    with pytest.raises(InvalidSetting, match=f"^PERDURE_KEYS: {why}") as error:
        keyring(settings())
    assert SECRET not in str(error.value)
    assert SHORT not in str(error.value)


def test_a_file_holds_keys_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_text(f"# current\nnew {SECRET}\n\n  old {SECRET}  \n")
    keys = keyring(Settings(keys_file=str(file)))
    assert keys is not None
    assert (keys.current, keys.ids) == ("new", ("new", "old"))


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"PERDURE_KEYS_FILE='.*/none' can't be read: No such file"):
        keyring(Settings(keys_file=str(tmp_path / "none")))
    (tmp_path / "empty").touch(0o600)
    (tmp_path / "empty").write_text("# none yet\n")
    with pytest.raises(InvalidSetting, match="there is no key in it"):
        keyring(Settings(keys_file=str(tmp_path / "empty")))


@pytest.mark.parametrize("mode", [0o666, 0o604, 0o620, 0o610, 0o602])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "keys"
    file.write_text(f"a {SECRET}\n")
    file.chmod(mode)
    with pytest.raises(InvalidSetting, match=f"has mode {mode:04o}, and others than its owner may use it: chmod 600"):
        keyring(Settings(keys_file=str(file)))
    file.chmod(0o400)
    assert keyring(Settings(keys_file=str(file))) is not None


def test_a_group_may_read_a_file_of_roots_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"a {SECRET}\n")
    file.chmod(0o440)
    if file.stat().st_uid == 0:
        assert keyring(Settings(keys_file=str(file))) is not None
    else:
        with pytest.raises(InvalidSetting, match="has mode 0440"):
            keyring(Settings(keys_file=str(file)))


def test_both_ways_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", f"a:{SECRET}")
    monkeypatch.setenv("PERDURE_KEYS_FILE", "/keys")
    with pytest.raises(InvalidSetting, match="both set"):
        keyring(settings())


@pytest.mark.parametrize("name", ["PERDURE_ENCRYPT", "PERDURE_SEAL"])
def test_to_encrypt_without_keys_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "true")
    with pytest.raises(InvalidSetting, match=f"{name}=true needs keys: set PERDURE_KEYS"):
        PerdurePlugin(App([], []))


def test_keys_encrypt_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not encrypts(settings())
    monkeypatch.setenv("PERDURE_KEYS", f"a:{SECRET}")
    assert encrypts(settings())
    monkeypatch.setenv("PERDURE_ENCRYPT", "false")
    assert not encrypts(settings())


def test_settings_don_t_show_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEYS", f"a:{SECRET}")
    assert SECRET not in repr(settings())
    assert SECRET not in settings().model_dump_json()


def test_keys_require_a_package_which_the_error_names() -> None:
    script = f"""
import sys
sys.modules["cryptography"] = None
from perdure import Settings, errors
from perdure.encryption import Private
from perdure._crypto.keyring import keyring
assert Private("x").open() == "x"
try:
    keyring(Settings(keys="a:{SECRET}"))
except errors.InvalidSetting as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "keys need the package cryptography: pip install 'perdure[encryption]'" in run.stdout
