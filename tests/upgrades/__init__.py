"""What may be changed while lifecycles are open: each edit is made between two workers."""
