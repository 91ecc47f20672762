-- Whether a reconciliation started the entity $1, $2 again within a day, after the end of a run other than $3.
select exists (
    select from perdure.finding
    where kind = 'ended' and lifecycle = $1 and id = $2 and mended and about <> $3
        and last_seen > clock_timestamp() - interval '1 day')
