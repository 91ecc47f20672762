"""What an app and an operator do with lifecycles. `Client` has the verbs, and `SyncClient` those of synchronous code;
a web app that starts by name imports no database driver, and nothing of a worker, with them.
"""

from perdure._wire.requests import Resolution as Resolution
from perdure._wire.requests import SendAgain as SendAgain
from perdure._wire.status import LifecycleStatus as LifecycleStatus
from perdure.client.client import Client as Client
from perdure.client.client import Handle as Handle
from perdure.client.records import EffectRecord as EffectRecord
from perdure.client.records import EntityStatus as EntityStatus
from perdure.client.records import Event as Event
from perdure.client.sync import SyncClient as SyncClient
