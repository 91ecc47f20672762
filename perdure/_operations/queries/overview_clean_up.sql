-- The last clean-up.
select run, asked_by, began_at, ended_at, seen, mended, reported,
    extract(epoch from clock_timestamp() - began_at)::float as age_seconds
from perdure.clean_up order by run desc limit 1
