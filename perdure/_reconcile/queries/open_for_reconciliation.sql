-- A page of open entities for a reconciliation, in the order of their keys: $1 lifecycles, after the key $2, $3, up to $4, only the
-- entity $5, $6 if these are not null. It skips entities with a start in the outbox or in `rejected`, and those that a copied
-- database leaves to its original. $7: `ABOUT_DOUBT`, for doubts that wait for a person.
select
    e.lifecycle, e.id, e.generation, e.state, e.since, e.stuck_at, e.attention, e.created_at, e.workflow_id, i.version,
    greatest(e.created_at, to_timestamp(i.version / 1e6)) as written_at,
    case when pg_column_size(e.input) < 65536 then e.input::text end as input,
    d.doubts
from perdure.entity e
join perdure.ident i on i.lifecycle = e.lifecycle and i.id = e.id and i.generation = e.generation and i.final is null
left join lateral (
    select jsonb_agg(jsonb_build_object(
        'key', f.key, 'effect', f.effect, 'first_at', perdure.utc(f.first_at), 'deadline', perdure.utc(f.deadline),
        'attempts', f.attempts, 'lookup_hint', f.lookup_hint, 'why', f.why) order by f.first_at)::text as doubts
    from perdure.effect f
    where f.lifecycle = e.lifecycle and f.id = e.id and f.generation = e.generation and f.status = 'in_doubt'
) d on e.attention ~ $7
where (e.lifecycle, e.id) > ($2, $3) and e.lifecycle = any($1)
    and ($5::text is null or (e.lifecycle, e.id) = ($5, $6))
    and e.left_to is null
    and not exists (select from perdure.outbox o where o.lifecycle = e.lifecycle and o.id = e.id and o.kind = 'start')
    and not exists (
        select from perdure.rejected r
        where r.lifecycle = e.lifecycle and r.id = e.id and r.generation = e.generation and r.kind = 'start')
order by e.lifecycle, e.id
limit $4
