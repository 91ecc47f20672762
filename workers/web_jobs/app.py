"""The application of web jobs: which lifecycles run, which bodies perform their effects, its commands and pages."""

from activities.web_jobs.bodies import call_page, call_page_inline, find_web_call, follow_page, list_children
from activities.web_jobs.families import advance_family, cancel_children, route_job, run_failed_again
from activities.web_jobs.resources import lifespan
from perdure.app import App
from workflows.web_jobs.web_job import WebJob

app = App(
    lifecycles=[WebJob],
    effects=[
        *(route_job, call_page, call_page_inline, find_web_call, follow_page),
        *(advance_family, run_failed_again, list_children, cancel_children),
    ],
    lifespan=lifespan,
    commands={"job-type": "workers.web_jobs.job_types:commands"},
    pages={"web-jobs": "workers.web_jobs.console:PAGES"},
)
