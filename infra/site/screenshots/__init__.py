"""The pictures of what an operator sees: `python -m infra.site.screenshots` takes them, on servers of its own."""
