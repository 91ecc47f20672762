"""Random families of web jobs on a virtual clock: real SQL, lifecycle and activities; the pages are played.

PostgreSQL runs the functions and triggers of `activities/web_jobs/tables.sql`, Temporal and the workers are those of
`perdure.testing.exploring`. What is played is one HTTP exchange at a time (`pages`), and the judge (`judge`) has
the books of the pages.
"""
