"""Private fields, which database, histories and logs do not show, and the service that unwraps their keys."""

from perdure._crypto.private import Private as Private
from perdure._crypto.private import PrivateAs as PrivateAs
from perdure._crypto.private import PrivatePattern as PrivatePattern
from perdure._crypto.service import KeyService as KeyService
