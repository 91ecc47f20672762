"""Applications that the tests run, in their own process or in worker processes."""
