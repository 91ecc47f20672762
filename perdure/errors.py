"""The errors that perdure raises on purpose. All of them are `PerdureError`.

Each message names the mistake, the value, and the next step.
"""

from typing import ClassVar


class PerdureError(Exception):
    """Base class of every error that perdure raises on purpose.

    Attributes:
        code: identifies the kind of error in logs, searches and docs/errors.md; it stays when the message changes.

    Example:
        >>> from perdure.errors import NotNow, PerdureError
        >>> try:
        ...     raise NotNow("the order is paid already")
        ... except PerdureError as error:
        ...     print(error.code, error)
        PERDURE-2103 the order is paid already
    """

    code: ClassVar[str] = "PERDURE-1000"


class DeclarationError(PerdureError):
    """A lifecycle, effect or app is declared wrongly. Raised at import or start-up."""

    code = "PERDURE-1101"


class InvalidEntity(PerdureError, ValueError):
    """An entity's lifecycle, id or generation cannot be used."""

    code = "PERDURE-1104"


class InvalidInput(PerdureError, ValueError):
    """An input does not fit the model that its lifecycle or effect declares."""

    code = "PERDURE-1103"


class InvalidHistory(PerdureError, ValueError):
    """A file does not contain the history of a workflow."""

    code = "PERDURE-1105"


class InvalidPosition(PerdureError, ValueError):
    """The position is not one of this feed, or belongs to another database or to a time before a restore."""

    code = "PERDURE-1106"


class UnreadableRecord(PerdureError):
    """Today's code cannot read a record that earlier code could read. The entity waits until newer code can."""

    code = "PERDURE-2108"


class TooLarge(PerdureError):
    """A value has more bytes than Temporal takes in one piece, or is nested too deep. The workflow task succeeds once
    code keeps less."""

    code = "PERDURE-1107"


class UnknownLifecycle(PerdureError, LookupError):
    """The app has no lifecycle of that name."""

    code = "PERDURE-1102"


class NoSuchEntity(PerdureError, LookupError):
    """The app's database has no such entity."""

    code = "PERDURE-2101"


class AlreadyFinished(PerdureError):
    """The entity is in a final state, so the request comes too late."""

    code = "PERDURE-2102"


class NotNow(PerdureError):
    """The request makes no sense in the lifecycle's present state."""

    code = "PERDURE-2103"


class NoWorkflow(NotNow):
    """The entity is open but has no workflow: it was terminated, has failed, or Temporal lost it."""

    code = "PERDURE-2104"


class NotPermitted(PerdureError):
    """The database role lacks a right."""

    code = "PERDURE-2105"


class Forbidden(PerdureError):
    """The person who uses the console has no role for this."""

    code = "PERDURE-2109"


class NotOnRecord(PerdureError):
    """The request was carried out, but the person who made it could not be recorded."""

    code = "PERDURE-2106"


class NoTransaction(PerdureError):
    """The app's connection would commit this call apart from the app's row."""

    code = "PERDURE-1110"


class UnknownConnection(PerdureError, TypeError):
    """The given connection of the app cannot carry a call to PostgreSQL."""

    code = "PERDURE-1109"


class NotConnected(PerdureError):
    """The client has no connection of the kind that this verb needs."""

    code = "PERDURE-1111"


class DatabaseUnavailable(PerdureError):
    """PostgreSQL gave no answer in time. Whether the write was committed is unknown."""

    code = "PERDURE-3101"


class TemporalUnavailable(PerdureError):
    """Temporal gave no answer in time."""

    code = "PERDURE-3201"


class SchemaMismatch(PerdureError):
    """The schema in the database is older or newer than this version of perdure supports."""

    code = "PERDURE-3102"


class NotThisDatabase(PerdureError):
    """The database is a copy, an older state, or another one's. Perdure sends nothing until somebody declares what it
    is."""

    code = "PERDURE-3103"


class StepFailed(PerdureError):
    """A step failed. Perdure repeats it."""

    code = "PERDURE-2107"


class RefusedWrite(PerdureError):
    """PostgreSQL refuses this write: a table or a right is missing, or a constraint is broken. Nothing was
    committed."""

    code = "PERDURE-3104"


class UnstorableWrite(RefusedWrite):
    """PostgreSQL cannot store the content of this write."""

    code = "PERDURE-3105"


class InvalidSetting(PerdureError, ValueError):
    """A setting has a value that cannot be used."""

    code = "PERDURE-4101"


class KeyServiceUnavailable(PerdureError):
    """The service that unwraps this process's keys gives no key."""

    code = "PERDURE-4201"


class UnusableFile(InvalidSetting, OSError):
    """A certificate, key or password file that a setting names cannot be used. A worker tries it again."""

    code = "PERDURE-4102"


class Unopenable(PerdureError):
    """A sealed value cannot be decrypted. The message has the reason, and nothing of the content."""

    code = "PERDURE-4202"


class UnknownKey(Unopenable):
    """A value is encrypted with a key that this process does not have."""

    code = "PERDURE-4203"


class NotHere(PerdureError):
    """The call is impossible at this place: in workflow code, or outside of a body."""

    code = "PERDURE-1108"
