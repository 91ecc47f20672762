"""What becomes of what is over: months that are exported and dropped, entities that are forgotten."""
