"""Development on one machine: servers, a worker that reloads, and the files of a new project."""
