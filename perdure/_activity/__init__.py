"""The activity side: the shared body around every effect and look-up, and what the two sides say to each other."""
