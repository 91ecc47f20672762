"""The activity side: the body around every effect, look-up and step, and the activities of a worker."""
