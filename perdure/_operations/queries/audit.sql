-- What people did, the newest first: of the $1 acts before the number $2, those that fit. $3 who, $4 lifecycle, $5 id, $6 a part of
-- the reason, $7 since, $8 and $9 as in overview.sql. Null = no such filter. `upto` is the number that was looked at last: acts
-- before it were not, whether or not this stretch has any. $10 at most.
with stretch as (
    select t.seq, t.at, t.lifecycle, t.id, t.generation, t.state, t.why, t.made_by, t.session_role
    from perdure.transition t
    where t.made_by is not null and t.seq < coalesce($2::bigint, 9223372036854775807) and ($7::timestamptz is null or t.at >= $7)
    order by t.seq desc
    limit $1
)
select s.seq, s.at, s.lifecycle, s.id, s.generation, s.state, s.why, s.made_by, s.session_role, i.tenant, u.upto, u.looked, u.upto_at
from (select min(seq) as upto, count(*) as looked, min(at) as upto_at from stretch) u
left join (stretch s left join perdure.ident i on i.lifecycle = s.lifecycle and i.id = s.id)
    on ($3::text is null or s.made_by = $3) and ($4::text is null or s.lifecycle = $4)
        and ($5::text is null or s.id = $5) and ($6::text is null or position($6 in s.why) > 0)
        and ($8::text[] is null or exists (
            select from unnest($8::text[], $9::text[]) as r (lifecycle, tenant)
            where (r.lifecycle is null or r.lifecycle = s.lifecycle) and (r.tenant is null or r.tenant = i.tenant)))
order by s.seq desc nulls last
limit $10
