"""What runs beside the lifecycles: the worker process, the plugin, the follower, the gauges."""
