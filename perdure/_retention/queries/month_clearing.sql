update perdure.month set clearing_at = coalesce(clearing_at, clock_timestamp()) where month = $1
