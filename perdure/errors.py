"""The errors that perdure raises on purpose. All of them are `PerdureError`.

Each message says what was wrong, with which value, and what to do next.
"""


class PerdureError(Exception):
    """Base class of every error that perdure raises on purpose."""


class DeclarationError(PerdureError):
    """A lifecycle, effect or app is declared in a way that can't work; raised at import or start-up."""


class InvalidEntity(PerdureError, ValueError):
    """An entity's lifecycle, id or round can't be used."""


class InvalidInput(PerdureError, ValueError):
    """An input does not fit the model that its lifecycle or effect declares."""


class InvalidHistory(PerdureError, ValueError):
    """A file is no history of a workflow."""


class InvalidPosition(PerdureError, ValueError):
    """It is no position of the feed, or not one of this database; the message says how to begin again."""


class UnreadableRecord(PerdureError):
    """What earlier code could read, and went on from, today's code can't: the next deploy may heal that."""


class TooLarge(PerdureError):
    """It has more bytes than Temporal takes in one piece; the workflow task goes on once code keeps less of it."""


class UnknownLifecycle(PerdureError, LookupError):
    """No lifecycle of that name is registered in the app."""


class NoSuchEntity(PerdureError, LookupError):
    """The app's database knows no such entity."""


class AlreadyFinished(PerdureError):
    """The entity is in a final state, so what was asked can't be done any more."""


class NotNow(PerdureError):
    """What was asked makes no sense in the state that the lifecycle is in; the message says why."""


class NoWorkflow(NotNow):
    """The entity is open, and no workflow of it is: it was terminated, or has failed, or the engine was lost."""


class NotPermitted(PerdureError):
    """The database role may not do that; the message says who can let it."""


class NotOnRecord(PerdureError):
    """It was done, and who asked for it could not be written down."""


class NoTransaction(PerdureError):
    """The app's connection would commit what was asked by itself, apart from the app's row."""


class UnknownConnection(PerdureError, TypeError):
    """What was given as the app's connection can't carry a call to PostgreSQL."""


class NotConnected(PerdureError):
    """The client was made without the connections that this verb needs."""


class DatabaseUnavailable(PerdureError):
    """PostgreSQL gave no answer in time; whether the write was committed is unknown."""


class EngineUnavailable(PerdureError):
    """Temporal gave no answer in time."""


class SchemaMismatch(PerdureError):
    """The schema in the database is older or newer than this version of perdure can work with."""


class NotThisDatabase(PerdureError):
    """The database is a copy, an older state, or another one's: nothing is sent before somebody says what it is."""


class StepFailed(PerdureError):
    """A step did not succeed, and is taken again."""


class RefusedWrite(PerdureError):
    """PostgreSQL refuses this write: a table or a permission is missing, or a constraint is broken. The write was not
    committed, and may succeed once somebody has mended that."""


class UnstorableWrite(RefusedWrite):
    """PostgreSQL can't store this one write for what is in it; sending it again can't help."""


class InvalidSetting(PerdureError, ValueError):
    """A setting has a value that can't be used."""


class KeyServiceUnavailable(PerdureError):
    """The service that unwraps this process's keys gives no key."""


class UnusableFile(InvalidSetting, OSError):
    """A certificate, key or password file that a setting names can't be used. A worker tries it again."""


class Unopenable(PerdureError):
    """What is encrypted can't be decrypted; the message says why, and nothing of what is in it."""


class UnknownKey(Unopenable):
    """It is encrypted with a key that this process does not have: it opens once that key is deployed."""


class NotHere(PerdureError):
    """It can't be done at this place: in workflow code, which must do the same whenever it is run again, or outside of
    a body, where no entity is at hand."""
