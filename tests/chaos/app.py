"""The app that the chaos' workers run: every lifecycle of the tests, and the notification of comments by mail."""

from perdure import App
from tests.apps import bodies, talking
from workers.app import app as mail_app

PARTS = (bodies.app, talking.app, mail_app)

app = App(
    lifecycles=[lifecycle for part in PARTS for lifecycle in part.lifecycles.values()],
    effects=[body for part in PARTS for _, body in part.bodies.values()],
)
