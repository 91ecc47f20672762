-- Entities of which something was rejected, with its numbers: $1 to $6 as in rejected_chosen.sql, those behind the entity $7/$8, $9
-- at most.
select j.lifecycle, j.id, array_agg(j.seq order by j.seq) as seqs
from perdure.rejected j
left join perdure.ident i on i.lifecycle = j.lifecycle and i.id = j.id
where ($1::text is null or j.lifecycle = $1) and ($2::text is null or position($2 in j.reason) > 0)
    and ($3::bigint is null or j.seq = $3) and ($4::timestamptz is null or j.rejected_at <= $4)
    and ($5::text[] is null or exists (
        select from unnest($5::text[], $6::text[]) as r (lifecycle, tenant)
        where (r.lifecycle is null or r.lifecycle = j.lifecycle) and (r.tenant is null or r.tenant = i.tenant)))
    and (j.lifecycle collate "C", j.id collate "C") > ($7::text, $8::text)
group by 1, 2
order by j.lifecycle collate "C", j.id collate "C"
limit $9
