"""What runs beside the lifecycles for as long as a worker does: relay, ownership, gauges; each is a `Service`."""
