"""Whether the jobs of a type can be called now: asked when one is routed, and before each call."""

from __future__ import annotations

from activities.secrets import NoSecret
from activities.web_jobs.job_type import JobType, read_type
from activities.web_jobs.origins import forbidden
from activities.web_jobs.resources import Web
from activities.web_jobs.settings import web_settings
from activities.web_jobs.signature import secrets
from perdure import NotDone


def why_not(type_: JobType) -> str | None:
    """Why jobs of this type cannot be called, if an operator of Perdure can correct that; None = they can."""
    why = _disabled(type_) or _forbidden(type_) or _no_callback(type_) or _no_secret(type_)
    return why and f"the job type {type_.name} {why}"


async def ready_type(web: Web, name: str, *, disabled: bool = False, callback: bool = False) -> JobType:
    """The type of that name, as it is now.

    Args:
        disabled: also one that is disabled, for a request that does no work.
        callback: whether the page may call back, even if its type does not allow that any more: a call of the job has
            named the URL.

    Raises:
        NotDone: there is none, or its jobs can't be called now.
    """
    async with web.pool.acquire() as connection:
        type_ = await read_type(connection, name)
    if type_ is None:
        raise NotDone(f"there is no job type {name!r}")
    if callback:
        type_ = type_.model_copy(update={"callback": True})
    if why := why_not(type_.model_copy(update={"disabled": None}) if disabled else type_):
        raise NotDone(why)
    return type_


def _disabled(type_: JobType) -> str | None:
    return type_.disabled and f"is disabled: {type_.disabled}"


def _forbidden(type_: JobType) -> str | None:
    asked = type_.status_url if type_.doubt == "lookup" else None
    why = forbidden(type_.url) or (forbidden(asked) if asked else None)
    return why and f"can't be called: {why}"


def _no_callback(type_: JobType) -> str | None:
    settings = web_settings()
    given = {"PERDURE_WEB_CALLBACK_URL": settings.callback_url, "PERDURE_WEB_CALLBACK_SECRET": settings.callback_secret}
    missing = [name for name, value in given.items() if value is None]
    return f"needs callbacks, and {missing[0]} is not set" if type_.callback and missing else None


def _no_secret(type_: JobType) -> str | None:
    try:
        secrets(type_.signed_with or "")
        secrets(type_.status_signed_with or "" if type_.doubt == "lookup" else "")
    except NoSecret as error:
        return f"can't be signed: {error}"
    return None
