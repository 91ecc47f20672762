-- Take the next turn, unless another worker has taken one within $1; then no row. `closed_since` is a day ago in the first one.
update perdure.watch set looked_at = clock_timestamp()
where looked_at is null or looked_at < clock_timestamp() - $1::interval
returning coalesce(closed_since, clock_timestamp() - interval '1 day') as closed_since, lifecycle, id, looked_at
