"""An app that forgot the bodies of its effects: no worker may start with it."""

from perdure import App
from tests.apps.bookings import LookupBooking

app = App(lifecycles=[LookupBooking], effects=[])
