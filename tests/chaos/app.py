"""The apps that the chaos' workers run: every lifecycle of the tests, the notification of comments by mail, and
generated lifecycles: in an older build, and in a newer one.
"""

from perdure import App
from tests.apps import bodies, talking
from tests.chaos import answers, generated_bodies
from workers.comments.app import app as mail_app

PARTS = (bodies.app, talking.app, mail_app)


def _app(*parts: App) -> App:
    return App(
        lifecycles=[lifecycle for part in parts for lifecycle in part.lifecycles.values()],
        effects=[body for part in parts for _, body in part.bodies.values()],
    )


app = _app(*PARTS, generated_bodies.older)
newer = _app(*PARTS, generated_bodies.newer)

answers.keep()
