"""`KeyService`: Vault, a KMS or an HSM, whose own key wraps the keys of Perdure and never leaves the service.

PERDURE_KEYS or PERDURE_KEYS_FILE then holds wrapped keys. A process has each of them unwrapped once, at its start.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from perdure._loading import load
from perdure.errors import DeclarationError, InvalidSetting, KeyServiceUnavailable


@runtime_checkable
class KeyService(Protocol):
    """Wraps and unwraps keys. Both methods may block, and raise an exception if they fail: a process does not start
    without its keys.
    """

    def wrap(self, key: bytes) -> bytes:
        """A key of 32 bytes, encrypted so that `unwrap` returns it."""
        ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """The key that was wrapped, also with an earlier version of the service's own key."""
        ...


def key_service(path: str) -> KeyService:
    """The object at `package.module:name`, also in the current folder.

    Raises:
        InvalidSetting: there is no such object.
    """
    try:
        found = load(path)
    except DeclarationError as error:
        raise InvalidSetting(f"PERDURE_KEY_SERVICE={error}") from error
    if isinstance(found, type) or not isinstance(found, KeyService):
        raise InvalidSetting(f"PERDURE_KEY_SERVICE={path!r} has no methods wrap and unwrap: see perdure.KeyService")
    return found


def unwrapped(service: KeyService, where: str, key_id: str, wrapped: bytes) -> bytes:
    """The key of that id.

    Raises:
        KeyServiceUnavailable: the service raised. Its message is not shown, because it may quote the key.
    """
    try:
        return service.unwrap(wrapped)
    except Exception as error:
        raise KeyServiceUnavailable(
            f"{where}: the key {key_id!r} is not unwrapped by {type(service).__name__} ({type(error).__name__}): "
            "check that the service answers and permits this process to use its key"
        ) from None


def wrapped(service: KeyService, key: bytes) -> bytes:
    """The key, wrapped. Raises KeyServiceUnavailable, as `unwrapped`."""
    try:
        return service.wrap(key)
    except Exception as error:
        raise KeyServiceUnavailable(
            f"no key is wrapped by {type(service).__name__} ({type(error).__name__}): "
            "check that the service answers and permits this process to use its key"
        ) from None
