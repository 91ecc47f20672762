-- The rows among $1 (seqs, of the lifecycles $3) that were tried again since $2 and failed, with the error.
select o.lifecycle, o.id, o.generation, o.kind, o.tries, o.error, greatest(o.created_at, o.due_at) as since
from unnest($3::text[]) l(name) cross join generate_series(1, 5) p cross join lateral (
    select x.* from perdure.outbox x
    where x.lifecycle = l.name and x.priority = p and x.not_before between $2 and now() + interval '1 minute' and x.seq = any($1)
) o
order by o.seq
