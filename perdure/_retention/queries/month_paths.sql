insert into perdure.month (month, paths) values ($1, $2)
on conflict (month) do update set exported_at = null,
    paths = array(select unnest(month.paths) union select unnest(excluded.paths) order by 1)
