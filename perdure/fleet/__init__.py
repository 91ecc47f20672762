"""What runs beside the lifecycles: the worker process, the plugin, the relay, the follower."""
