"""The background services of a worker, such as relay, ownership and gauges; each is a `Service`."""
