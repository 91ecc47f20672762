-- Takes the next turn of the watch; no row if another worker took one within $1. A turn in the future was taken before the
-- clock went back, and does not count. In the first turn, `closed_since` is a day ago.
update perdure.watch set looked_at = clock_timestamp()
where looked_at is null or looked_at < clock_timestamp() - $1::interval or looked_at > clock_timestamp()
returning coalesce(closed_since, clock_timestamp() - interval '1 day') as closed_since, lifecycle, id, looked_at
