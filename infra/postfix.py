"""A real Postfix of a test's own: queue, log and mailboxes in one folder, nothing on the network, none of the system's.

It delivers to the given mailboxes of `inbox.example`, bounces other mail to that domain, and sends none away.
Postfix must be installed, and be started by root, which it drops at once.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from email.parser import BytesHeaderParser
from pathlib import Path

import psutil

from perdure.servers.guard import GuardedProcess

DOMAIN = "inbox.example"
_INSTALL = "no Postfix here: install it (Debian: apt-get install --no-install-recommends postfix) and run this as root"
_PATIENCE = 120.0  # seconds

_SERVICES = """\
postlog unix-dgram n - n - 1 postlogd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
"""


def why_no_postfix() -> str | None:
    """What is missing to run one here, in one sentence; None if it can be run."""
    there = shutil.which("postconf", path=_path()) is not None and os.geteuid() == 0
    return None if there else _INSTALL


class Postfix:
    """One instance, from `with` to its end; it is gone with the process that started it, however that ends.

    Attributes:
        folder: holds all of it.
        log: its log; rotated parts lie beside it.
    """

    def __init__(self, mailboxes: Iterable[str]) -> None:
        """`mailboxes`: the parts before the @."""
        # Under /tmp itself: a test's own folder is closed to others, and Postfix does its work as one.
        self.folder = Path(tempfile.mkdtemp(prefix="perdure-postfix-"))
        self.log = self.folder / "mail.log"
        self._mailboxes = sorted(mailboxes)
        self._daemons = Path(_output("postconf", "-dh", "daemon_directory"))
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Postfix:
        try:
            self._configure()
            self._make_queue()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a worker that hands its mail to this instance, and looks it up here."""
        return {
            "MAIL_CONFIG": str(self._config),
            "PERDURE_MAIL_LOG": str(self.log),
            "PERDURE_MAIL_SENDMAIL": f"{_program('sendmail')} -i -t",
            "PERDURE_MAIL_POSTQUEUE": f"{_program('postqueue')} -j",
        }

    def start(self) -> None:
        """Start it, and wait until its log shows that it runs."""
        before = self._starts()
        command: list[str | Path] = [self._daemons / "master", "-c", self._config, "-s"]
        output = self.folder / "master.out"
        self._process = GuardedProcess(command, ask=signal.SIGTERM, log=output, remove=self.folder)
        end = time.monotonic() + _PATIENCE
        while self._starts() == before:
            if not self._process.running or time.monotonic() > end:
                self._process.kill()
                raise RuntimeError(f"Postfix does not start: {output.read_text()}{self.log.read_text()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop it, with all of its processes. Mail can still be handed over, and waits."""
        if self._process is not None:
            children = psutil.Process(self._process.pid).children(recursive=True) if self._process.running else []
            self._process.stop()
            psutil.wait_procs(children)
            self._process = None

    def set(self, name: str, value: str) -> None:
        """Change a setting, for whatever is started from now on."""
        _output("postconf", "-c", str(self._config), "-e", f"{name}={value}")

    def rotate_log(self) -> None:
        """As logrotate does once a day: the log gets another name and is packed; a new one begins."""
        _output("postfix", "-c", str(self._config), "logrotate")

    def is_empty(self) -> bool:
        """Whether no mail is in its queue."""
        return not _output("postqueue", "-c", str(self._config), "-j")

    def is_done_with(self, message_id: str) -> bool:
        """Whether its queue is empty, and its log shows the end of each mail with this Message-ID. The log is late."""
        log = self.log.read_text()
        queue_ids = re.findall(rf"(\w+): message-id={re.escape(message_id)}$", log, re.MULTILINE)
        return bool(queue_ids) and all(f": {each}: removed" in log for each in queue_ids) and self.is_empty()

    def handed_over(self) -> dict[str, Counter[str]]:
        """How often it was given each mail that lies in a mailbox, by mailbox and Message-ID.

        A mailbox can hold one hand-over twice: Postfix repeats a delivery, and the pick-up of a mail, if it is stopped
        before it has noted that it did it. Both copies then show one time of the hand-over. Two hand-overs of one
        Message-ID within one second would count as one.
        """
        found: dict[str, set[tuple[str, str]]] = {name: set() for name in self._mailboxes}
        for mail in (self.folder / "mail").glob("*/new/*"):
            header = BytesHeaderParser().parsebytes(mail.read_bytes())
            at = str(header["received"]).rpartition(";")[2]  # of the first such line, which is its own
            found[mail.parts[-3]].add((str(header["message-id"]), at))
        return {name: Counter(message_id for message_id, _ in mails) for name, mails in found.items()}

    def without_room(self) -> str:
        """A `sendmail` for the setting that finds no room for a mail above 4 KB.

        For its process alone a full file system lies over `maildrop`. In a container that may not mount one, no file
        that it writes may grow: Postfix takes both for an error in writing its queue file.
        """
        command = f'exec {_program("sendmail")} -i -t "$@"'
        if not _may_mount():
            return f"sh -c 'ulimit -f 1; {command}' sendmail"
        maildrop = self.folder / "queue" / "maildrop"
        return f"unshare -m sh -c 'mount -t tmpfs -o size=4k,mode=1777 full {maildrop} && {command}' sendmail"

    @property
    def _config(self) -> Path:
        return self.folder / "config"

    def _configure(self) -> None:
        user = pwd.getpwnam("postfix")
        self.folder.chmod(0o755)
        self._folder("config", 0o755, 0, 0)
        for name in ("data", "mail"):
            self._folder(name, 0o755, user.pw_uid, user.pw_gid)
        boxes = "".join(f"{name}@{DOMAIN} {name}/\n" for name in self._mailboxes)
        (self._config / "mailboxes").write_text(boxes)
        (self._config / "master.cf").write_text(_SERVICES)
        settings = {
            "compatibility_level": "3.6",
            "queue_directory": self.folder / "queue",
            "data_directory": self.folder / "data",
            "command_directory": _output("postconf", "-dh", "command_directory"),
            "daemon_directory": self._daemons,
            "maillog_file": self.log,
            "maillog_file_prefixes": self.folder,
            "myhostname": "mx.example",
            "mydestination": "",
            "inet_interfaces": "loopback-only",
            "inet_protocols": "ipv4",
            "alias_maps": "",
            "alias_database": "",
            "default_transport": "error:5.7.1 no mail leaves this machine",
            "virtual_mailbox_domains": DOMAIN,
            "virtual_mailbox_base": self.folder / "mail",
            "virtual_mailbox_maps": f"texthash:{self._config / 'mailboxes'}",
            "virtual_minimum_uid": 1,
            "virtual_uid_maps": f"static:{user.pw_uid}",
            "virtual_gid_maps": f"static:{user.pw_gid}",
            "enable_long_queue_ids": "yes",
        }
        (self._config / "main.cf").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))

    def _make_queue(self) -> None:
        """Its folders, as `postfix check` makes them. That takes a second, and needs the system's own settings."""
        user, group = pwd.getpwnam("postfix"), grp.getgrnam("postdrop")
        for name in (
            "active",
            "bounce",
            "corrupt",
            "defer",
            "deferred",
            "flush",
            "hold",
            "incoming",
            "private",
            "trace",
        ):
            self._folder(f"queue/{name}", 0o700, user.pw_uid, 0)
        self._folder("queue/maildrop", 0o730, user.pw_uid, group.gr_gid)
        self._folder("queue/public", 0o710, user.pw_uid, group.gr_gid)
        self._folder("queue/pid", 0o755, 0, 0)

    def _folder(self, name: str, mode: int, owner: int, group: int) -> None:
        folder = self.folder / name
        folder.mkdir(parents=True)
        os.chown(folder, owner, group)
        folder.chmod(mode)

    def _starts(self) -> int:
        return self.log.read_text().count("daemon started") if self.log.exists() else 0


def _may_mount() -> bool:
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])


def _program(name: str) -> str:
    found = shutil.which(name, path=_path())
    if found is None:
        raise RuntimeError(f"no program {name}: {_INSTALL}")
    return found


def _output(program: str, *arguments: str) -> str:
    command = [_program(program), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {run.returncode}: {run.stdout}{run.stderr}")
    return run.stdout.strip()
