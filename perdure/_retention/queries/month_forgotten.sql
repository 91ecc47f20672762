select coalesce((forgotten ->> $2)::int, 0) from perdure.month where month = $1
