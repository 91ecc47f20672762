"""The unit file by which systemd runs `perdure up`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

_UNIT = """\
# Printed by `perdure up --print-systemd`. Save it as /etc/systemd/system/perdure.service.
[Unit]
Description=Perdure: {app}, its workers and Temporal
Wants=network-online.target
After=network-online.target postgresql.service

[Service]
Type=notify
ExecStart={command}
WorkingDirectory={folder}
User={user}
# Passwords belong into this file, which only root may read: PERDURE_DATABASE_URL=...
EnvironmentFile=/etc/perdure/perdure.env
# Folders that systemd makes for the user: /var/lib/perdure and /var/cache/perdure. All else is read-only, so Go, which
# may build Temporal's programs, has its caches there too.
StateDirectory=perdure
StateDirectoryMode=0700
CacheDirectory=perdure
Environment=XDG_CACHE_HOME=/var/cache PYTHONUNBUFFERED=1
Environment=GOCACHE=/var/cache/perdure/go-build GOMODCACHE=/var/cache/perdure/go-mod

# A start waits for PostgreSQL as long as it takes, and may build or download Temporal.
TimeoutStartSec=infinity
# The workers have {grace:g} s, then Temporal stops. With a longer PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT in the file above,
# `perdure up` asks systemd for more when it stops.
TimeoutStopSec={stop:g}
WatchdogSec=60
Restart=always
RestartSec=5
# SIGTERM goes to `perdure up` alone, which stops the others in order.
KillMode=mixed
OOMPolicy=continue

NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
{state}ProtectHome=read-only
ProtectKernelTunables=true
ProtectKernelModules=true
ProtectControlGroups=true
RestrictSUIDSGID=true
LockPersonality=true

[Install]
WantedBy=multi-user.target
"""


_STATE = """\
# The folder that --state names: make it for the user, before the first start.
ReadWritePaths={state}
"""

_PLAIN = re.compile(r"[\w@%$+=:,./-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def unit(
    app: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    state: Path | None,
    user: str,
    grace: float,
    stop: float,
) -> str:
    """The text of the unit file.

    Args:
        app: the App, as `package.module:name` or `package.module`.
        arguments: options of `perdure up`.
        folder: where the app is imported from.
        state: of the installation; None = the one that systemd makes.
        user: who runs it.
        grace: seconds that workers have to stop.
        stop: seconds that all have to stop.
    """
    words = [sys.executable, "-m", "perdure.cli", "up", app, *arguments]
    # Of the first word, the program, systemd expands no variables.
    command = " ".join([_word(words[0]), *(_word(each).replace("$", "$$") for each in words[1:])])
    writable = "" if state is None else _STATE.format(state=_word(str(state)))
    return _UNIT.format(
        app=app, command=command, folder=_literal(str(folder)), state=writable, user=user, grace=grace, stop=stop
    )


def _word(text: str) -> str:
    """One word of a setting that has several. Quotation marks stand around a whole word, and a backslash in it escapes:
    systemd.syntax(7), "Quoting". A shell has other rules."""
    if _PLAIN.fullmatch(text):
        return _literal(text)
    escaped = "".join(_ESCAPES.get(each, each) for each in text)
    return f'"{_literal(escaped)}"'


def _literal(text: str) -> str:
    """Without specifiers: systemd.unit(5), "Specifiers"."""
    return text.replace("%", "%%")
