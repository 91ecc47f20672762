"""The style sheet, the script and the icon, out of the wheel."""

from __future__ import annotations

import hashlib
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


class Assets:
    """Read once; a browser keeps each under the version that its address names."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, bytes]] = {}
        for file in resources.files(__name__).iterdir():
            kind = _TYPES.get("." + file.name.rpartition(".")[2])
            if kind is not None:
                self._files[file.name] = kind, file.read_bytes()

    def version(self, name: str) -> str:
        """Changes with the file."""
        return hashlib.sha256(self._files[name][1]).hexdigest()[:12]

    async def answer(self, request: Request) -> Response:
        """The file that the address names."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        kind, content = found
        return Response(content, media_type=kind, headers={"Cache-Control": _FOR_EVER})
