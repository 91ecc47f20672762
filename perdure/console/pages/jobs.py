"""Acts on many that are under way: how far each is, and its button to stop."""

from __future__ import annotations

from starlette.responses import Response

from perdure.console.jobs import Job
from perdure.console.page import Page, View
from perdure.console.roles import Role
from perdure.errors import NoSuchEntity


async def show(view: View) -> Response:
    """How far one has come."""
    return view.render("job.html", job=_job(view))


async def show_all(view: View) -> Response:
    """Those that this process remembers."""
    return view.render("jobs.html", jobs=view.console.jobs.all_of(view.person))


async def stop(view: View) -> Response:
    """Those under way are the last."""
    found = _job(view)
    found.stop.set()
    return view.redirect(f"/jobs/{found.id}")


def _job(view: View) -> Job:
    found = view.console.jobs.of(view.person, view.request.path_params["job"])
    if found is None:
        raise NoSuchEntity(
            "this process of the console has no such act on many: another process that shares the folder has begun it,"
            " and only that one shows it; or it was long ago, the console was started again, or it is somebody else's. "
            "What it did is in the history of each entity"
        )
    return found


PAGES = [
    Page("jobs", "/jobs", show_all, Role.BULK),
    Page("jobs.one", "/jobs/{job}", show, Role.BULK),
    Page("jobs.stop", "/jobs/{job}/stop", stop, Role.BULK, method="POST"),
]
