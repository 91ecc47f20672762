-- Records the end of the reconciliation $1: $2 open entities seen, $3 mended, $4 left, $5 its summary. The last hundred are kept, and
-- the last one of everything that has ended.
with ended as (
    update perdure.reconciliation set
        ended_at = clock_timestamp(), seen = $2, mended = $3, reported = $4, summary = summary || $5::jsonb
    where run = $1
)
delete from perdure.reconciliation
where run <= $1 - 100 and run is distinct from (
    select max(c.run) from perdure.reconciliation c where c.ended_at is not null and c.summary->>'only' is null)
