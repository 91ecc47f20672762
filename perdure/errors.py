"""The errors that perdure raises on purpose. All of them are `PerdureError`.

Each message says what was wrong, with which value, and what to do next.
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
    """A lifecycle, effect or app is declared in a way that can't work; raised at import or start-up."""

    code = "PERDURE-1101"


class InvalidEntity(PerdureError, ValueError):
    """An entity's lifecycle, id or generation can't be used."""

    code = "PERDURE-1104"


class InvalidInput(PerdureError, ValueError):
    """An input does not fit the model that its lifecycle or effect declares."""

    code = "PERDURE-1103"


class InvalidHistory(PerdureError, ValueError):
    """A file is no history of a workflow."""

    code = "PERDURE-1105"


class InvalidPosition(PerdureError, ValueError):
    """It is no position of the feed, or not one of this database; the message says how to begin again."""

    code = "PERDURE-1106"


class UnreadableRecord(PerdureError):
    """What earlier code could read, and went on from, today's code can't: the next deploy may heal that."""

    code = "PERDURE-2108"


class TooLarge(PerdureError):
    """It has more bytes than Temporal takes in one piece; the workflow task goes on once code keeps less of it."""

    code = "PERDURE-1107"


class UnknownLifecycle(PerdureError, LookupError):
    """No lifecycle of that name is registered in the app."""

    code = "PERDURE-1102"


class NoSuchEntity(PerdureError, LookupError):
    """The app's database knows no such entity."""

    code = "PERDURE-2101"


class AlreadyFinished(PerdureError):
    """The entity is in a final state, so what was asked can't be done any more."""

    code = "PERDURE-2102"


class NotNow(PerdureError):
    """What was asked makes no sense in the state that the lifecycle is in; the message says why."""

    code = "PERDURE-2103"


class NoWorkflow(NotNow):
    """The entity is open, and no workflow of it is: it was terminated, or has failed, or Temporal was lost."""

    code = "PERDURE-2104"


class NotPermitted(PerdureError):
    """The database role may not do that; the message says who can let it."""

    code = "PERDURE-2105"


class NotOnRecord(PerdureError):
    """It was done, and who asked for it could not be written down."""

    code = "PERDURE-2106"


class NoTransaction(PerdureError):
    """The app's connection would commit what was asked by itself, apart from the app's row."""

    code = "PERDURE-1110"


class UnknownConnection(PerdureError, TypeError):
    """What was given as the app's connection can't carry a call to PostgreSQL."""

    code = "PERDURE-1109"


class NotConnected(PerdureError):
    """The client was made without the connections that this verb needs."""

    code = "PERDURE-1111"


class DatabaseUnavailable(PerdureError):
    """PostgreSQL gave no answer in time; whether the write was committed is unknown."""

    code = "PERDURE-3101"


class TemporalUnavailable(PerdureError):
    """Temporal gave no answer in time."""

    code = "PERDURE-3201"


class SchemaMismatch(PerdureError):
    """The schema in the database is older or newer than this version of perdure can work with."""

    code = "PERDURE-3102"


class NotThisDatabase(PerdureError):
    """The database is a copy, an older state, or another one's: nothing is sent before somebody says what it is."""

    code = "PERDURE-3103"


class StepFailed(PerdureError):
    """A step did not succeed, and is taken again."""

    code = "PERDURE-2107"


class RefusedWrite(PerdureError):
    """PostgreSQL refuses this write: a table or a permission is missing, or a constraint is broken. The write was not
    committed, and may succeed once somebody has mended that."""

    code = "PERDURE-3104"


class UnstorableWrite(RefusedWrite):
    """PostgreSQL can't store this one write for what is in it; sending it again can't help."""

    code = "PERDURE-3105"


class InvalidSetting(PerdureError, ValueError):
    """A setting has a value that can't be used."""

    code = "PERDURE-4101"


class KeyServiceUnavailable(PerdureError):
    """The service that unwraps this process's keys gives no key."""

    code = "PERDURE-4201"


class UnusableFile(InvalidSetting, OSError):
    """A certificate, key or password file that a setting names can't be used. A worker tries it again."""

    code = "PERDURE-4102"


class Unopenable(PerdureError):
    """What is encrypted can't be decrypted; the message says why, and nothing of what is in it."""

    code = "PERDURE-4202"


class UnknownKey(Unopenable):
    """It is encrypted with a key that this process does not have: it opens once that key is deployed."""

    code = "PERDURE-4203"


class NotHere(PerdureError):
    """It can't be done at this place: in workflow code, which must do the same whenever it is run again, or outside of
    a body, where no entity is at hand."""

    code = "PERDURE-1108"
