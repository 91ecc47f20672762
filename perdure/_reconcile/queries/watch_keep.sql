-- The turn goes on: no other worker takes it meanwhile.
update perdure.watch set looked_at = clock_timestamp()
