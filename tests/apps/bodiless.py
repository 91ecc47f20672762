"""An app that forgot the bodies of its effects: no worker may start with it."""

from perdure import App
from tests.apps.errands import LookupErrand

app = App(lifecycles=[LookupErrand], effects=[])
