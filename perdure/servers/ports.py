"""Free TCP ports on 127.0.0.1.

A server keeps its port over a restart: nobody else must be given that port while the server is down.
"""

import random
import socket

# Below every system's ephemeral range (Linux 32768-60999, macOS and RFC 6335 49152-65535): no outgoing
# connection is given such a port as its source, so a client that polls a dead server can't connect to itself.
_LOWEST, _HIGHEST = 15_000, 32_000
_TRIES = 200


def free_port() -> int:
    """Return a port on which nothing listens now.

    Raises:
        OSError: if none of 200 ports chosen at random was free.
    """
    # The system's randomness: forked and seeded test processes must not all draw the same ports.
    draw = random.SystemRandom()
    for _ in range(_TRIES):
        port = draw.randrange(_LOWEST, _HIGHEST)
        if is_free(port):
            return port
    raise OSError(f"no free port among {_TRIES} tried between {_LOWEST} and {_HIGHEST} on 127.0.0.1")


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
