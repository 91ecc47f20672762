"""The SMTP stand-in: a real server in a process of its own that accepts every mail and keeps none.

`python -m bench.cost.post_office PORT`; it stops by SIGTERM.
"""

from __future__ import annotations

import asyncio
import sys


class Conversation(asyncio.Protocol):
    """As little of RFC 5321 as a client needs that behaves."""

    def __init__(self) -> None:
        self._in_data = False
        self._unread = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See base class."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(b"220 stand-in\r\n")

    def data_received(self, data: bytes) -> None:
        """See base class."""
        *lines, self._unread = (self._unread + data).split(b"\r\n")
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        if self._in_data:
            if line == b".":
                self._in_data = False
                self._transport.write(b"250 2.0.0 Ok: queued as 4Q\r\n")
        elif line.upper() == b"DATA":
            self._in_data = True
            self._transport.write(b"354 go on\r\n")
        elif line.upper() == b"QUIT":
            self._transport.write(b"221 bye\r\n")
            self._transport.close()
        else:
            self._transport.write(b"250 ok\r\n")


async def main(port: int) -> None:
    """Serve until the process is stopped."""
    server = await asyncio.get_running_loop().create_server(Conversation, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
