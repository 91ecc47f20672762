"""`perdure key`, `seal`, `unseal`, `codec-token`, `codec-server`: keys, sealed fields, and who may read payloads."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from perdure._crypto import sealed
from perdure._crypto.access import Access, Signed, Tokens, line_of, new_token
from perdure._crypto.keyring import KEY_BYTES, KEY_ID, Keyring, keyring
from perdure._crypto.sealed import MARK
from perdure._crypto.service import key_service, wrapped
from perdure._worker.worker import stop_at_once, stop_requested
from perdure.cli.cli import ENCRYPT, cli
from perdure.cli.host_option import HostOption
from perdure.contracts.keys import Entity
from perdure.errors import InvalidInput, InvalidSetting, Unopenable
from perdure.logs import set_up
from perdure.settings import settings


@cli.command("key", epilog="Example: perdure key 2026-11", rich_help_panel=ENCRYPT)
def make_key(
    key_id: Annotated[str | None, typer.Argument(metavar="ID", help="of the key; default: today's date")] = None,
) -> None:
    """Print a new key for PERDURE_KEYS, as `id:base64`; wrapped, if PERDURE_KEY_SERVICE is set. It is kept nowhere."""
    key_id = key_id or f"{datetime.now(UTC):%Y-%m-%d}"
    if not re.fullmatch(KEY_ID, key_id):
        raise typer.BadParameter(f"{key_id!r} is no id of a key: letters, digits, . _ -, 64 at most")
    key, service = secrets.token_bytes(KEY_BYTES), settings().key_service
    if service is not None:
        key = wrapped(key_service(service), key)
    typer.echo(f"{key_id}:{base64.b64encode(key).decode()}")


Lifecycle = Annotated[str, typer.Argument(help="name of the lifecycle that the texts are for")]
EntityId = Annotated[str, typer.Argument(metavar="ID", help="id of the entity that they are for")]


@cli.command(epilog="Example: perdure seal dosage-reminders jo --field phone > sealed.txt", rich_help_panel=ENCRYPT)
def seal(
    lifecycle: Lifecycle,
    entity_id: EntityId,
    field: Annotated[str | None, typer.Option(help="that they are for; default: any field of the entity")] = None,
) -> None:
    """Seal texts for an entity, with the first key: one a line, from standard input to standard output; sealed ones
    stay."""
    keys, entity = _keys(), Entity(lifecycle, entity_id)

    def work(text: str) -> str:
        if not text.startswith(MARK):
            return sealed.seal(text, keys, entity, field)
        sealed.field_of(text)  # raises if the text only begins as a sealed one
        return text

    _each_line(work)


@cli.command(epilog="Example: perdure unseal dosage-reminders jo > phones.txt", rich_help_panel=ENCRYPT)
def unseal(lifecycle: Lifecycle, entity_id: EntityId) -> None:
    """Open texts that are sealed for an entity: one a line, from standard input to standard output; plain ones stay."""
    keys, entity = _keys(), Entity(lifecycle, entity_id)
    _each_line(lambda text: sealed.unseal(text, keys, entity) if text.startswith(MARK) else text)


@cli.command("codec-token", epilog="Example: perdure codec-token ann > tokens.txt", rich_help_panel=ENCRYPT)
def make_token(name: Annotated[str, typer.Argument(help="of its bearer, for the log")]) -> None:
    """Make a token for the codec server: its line for --tokens on standard output, itself on standard error."""
    token, digest = new_token()
    typer.echo(line_of(name, digest))
    typer.echo(f"perdure: for {name}, shown once: {token}", err=True)


@cli.command(
    "codec-server",
    epilog="Example: perdure codec-server --tokens tokens.txt --origin https://ui.example",
    rich_help_panel=ENCRYPT,
)
def run_codec_server(
    tokens: Annotated[Path | None, typer.Option(help="file of `name sha256:hex` lines: perdure codec-token")] = None,
    jwks: Annotated[str | None, typer.Option(help="URL of the keys that sign the JWTs of your SSO")] = None,
    audience: Annotated[str | None, typer.Option(help="`aud` of those JWTs")] = None,
    issuer: Annotated[str | None, typer.Option(help="`iss` of those JWTs")] = None,
    claim: Annotated[list[str] | None, typer.Option(help="NAME=VALUE that they must have, as groups=on-call")] = None,
    origin: Annotated[list[str] | None, typer.Option(help="of the Web UI, as https://ui.example; several")] = None,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 = any that is free", min=0, max=65535)] = 8081,
) -> None:
    """Serve Temporal's Web UI and command with payloads in plain, until SIGTERM; for bearers of a token alone."""
    stop_at_once()
    config = settings()
    set_up(config.log, config.log_level)
    access: list[Access] = [] if tokens is None else [Tokens.from_file(tokens)]
    if jwks is not None:
        if audience is None or issuer is None:
            raise typer.BadParameter("--jwks needs --audience and --issuer: else a JWT for any other service is let in")
        access.append(Signed(jwks, audience, issuer, _claims(claim or [])))
    try:
        from perdure._crypto.codec import Codec
        from perdure._crypto.server import codec_server, serve
    except ImportError as error:
        raise InvalidSetting(f"it needs the package aiohttp: pip install 'perdure[encryption]' ({error})") from error
    application = codec_server(Codec(_keys()), access, origin or [])

    async def run() -> None:
        await serve(application, host, port, stop_requested())

    asyncio.run(run())


def _keys() -> Keyring:
    keys = keyring(settings())
    if keys is None:
        raise InvalidSetting("there are no keys: set PERDURE_KEYS or PERDURE_KEYS_FILE; `perdure key` makes one")
    return keys


def _each_line(work: Callable[[str], str]) -> None:
    for number, line in enumerate(sys.stdin, 1):
        try:
            typer.echo(work(line.rstrip("\r\n")))
        except (ValueError, Unopenable) as error:
            raise InvalidInput(f"line {number}: {error}") from None


def _claims(given: list[str]) -> dict[str, str]:
    claims = dict(each.partition("=")[::2] for each in given)
    if not all(name and value for name, value in claims.items()):
        raise typer.BadParameter("--claim must be NAME=VALUE")
    return claims
