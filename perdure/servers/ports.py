"""Free TCP ports on 127.0.0.1.

A server keeps its port over a restart: nobody else must be given that port while the server is down, or before it
listens. So a process keeps each port that it takes: on Linux no other process that takes one by this module gets it.
"""

import errno
import random
import socket
import sys

# Below every system's ephemeral range (Linux 32768-60999, macOS and RFC 6335 49152-65535): no outgoing
# connection is given such a port as its source, so a client that polls a dead server can't connect to itself.
_LOWEST, _HIGHEST = 15_000, 32_000
_TRIES = 200

_kept: set[int] = set()


def free_port() -> int:
    """Return a port on which nothing listens now, and keep it.

    Raises:
        OSError: if none of 200 ports chosen at random was free.
    """
    # The system's randomness: forked and seeded test processes must not all draw the same ports.
    draw = random.SystemRandom()
    for _ in range(_TRIES):
        port = draw.randrange(_LOWEST, _HIGHEST)
        if port not in _kept and take(port):
            return port
    raise OSError(f"no free port among {_TRIES} tried between {_LOWEST} and {_HIGHEST} on 127.0.0.1")


def take(port: int) -> bool:
    """Keep `port` for this process, unless another one keeps it, or something listens there. Returns whether it did."""
    if not is_free(port) or (port not in _kept and not _mark(port)):
        return False
    _kept.add(port)
    return True


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do it: connections of a stopped server that linger in TIME_WAIT don't occupy the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _mark(port: int) -> bool:
    """Bind a name of Linux's abstract sockets (unix(7)): one process has it at a time, for as long as it lives."""
    if sys.platform != "linux":
        return True
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        mark.bind(f"\0perdure/port/{port}")
    except OSError as error:
        mark.close()
        return error.errno != errno.EADDRINUSE  # where such names are not allowed, nobody has one
    mark.detach()  # no object closes it
    return True
