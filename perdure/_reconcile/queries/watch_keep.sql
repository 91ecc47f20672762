-- Notes that the turn continues, so that no other worker takes it.
update perdure.watch set looked_at = clock_timestamp()
