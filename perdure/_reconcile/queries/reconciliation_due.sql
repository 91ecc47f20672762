-- Whether the last whole reconciliation that ended began longer ago than $1, or there was none.
select coalesce(max(began_at) < clock_timestamp() - $1::interval, true)
from perdure.reconciliation
where ended_at is not null and summary->>'only' is null
