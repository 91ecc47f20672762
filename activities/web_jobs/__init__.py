"""What the bodies of web jobs are made of: the request, what its answer means, and whom it may go to."""
