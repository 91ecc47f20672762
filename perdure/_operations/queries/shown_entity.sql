-- One entity, open or finished: $1 lifecycle, $2 id, $3 with payloads. Data of a dropped month is null. An input that is null has 0 bytes.
select i.lifecycle, i.id, i.generation, i.version, i.final, coalesce(e.state, i.final) as state, coalesce(e.since, f.finished_at) as since,
    e.stuck_at, e.attention, coalesce(e.tenant, f.tenant) as tenant, coalesce(e.created_at, f.created_at) as created_at,
    case when coalesce(e.id, f.id) is not null then coalesce(octet_length(coalesce(e.input, f.input)::text), 0) end as input_bytes,
    coalesce(e.workflow_id, f.workflow_id) as workflow_id,
    case when $3::boolean then coalesce(e.input, f.input)::text end as input,
    case when $3::boolean then coalesce(e.snapshot, f.snapshot)::text end as snapshot,
    clock_timestamp() as now
from perdure.ident i
left join perdure.entity e on e.lifecycle = i.lifecycle and e.id = i.id
left join lateral (
    select * from perdure.finished x
    where i.final is not null and x.lifecycle = i.lifecycle and x.id = i.id and x.generation = i.generation
    order by x.finished_at desc limit 1
) f on true
where i.lifecycle = $1 and i.id = $2
