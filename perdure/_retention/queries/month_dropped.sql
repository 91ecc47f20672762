insert into perdure.month (month, dropped_at) values ($1, clock_timestamp())
on conflict (month) do update set dropped_at = excluded.dropped_at
