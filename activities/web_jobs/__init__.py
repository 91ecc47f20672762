"""The parts of the bodies of web jobs: the request, the meaning of its answer, and the allowed origins."""
