-- The last reconciliation of everything.
select run, asked_by, began_at, ended_at, seen, mended, reported, summary
from perdure.reconciliation
where summary->>'only' is null
order by run desc
limit 1
