-- The last reconciliation.
select run, asked_by, began_at, ended_at, seen, mended, reported,
    extract(epoch from clock_timestamp() - began_at)::float as age_seconds
from perdure.reconciliation order by run desc limit 1
