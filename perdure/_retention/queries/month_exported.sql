insert into perdure.month (month, exported_at, files) values ($1, clock_timestamp(), $2::jsonb)
on conflict (month) do update set exported_at = excluded.exported_at, files = excluded.files, forgotten = '{}'
