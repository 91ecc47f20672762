select settled, waiting from perdure.follow($1)
