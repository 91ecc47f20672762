-- How many of a family's children, of those in some states and up to a limit, can't be run again before a doubt is settled.
with chosen as materialized (select id from web_job.job where parent = $1 and state = any ($2::text[]) limit $3)
select count(*) as children, count(*) filter (where exists (
    select from perdure.effect x
    where x.lifecycle = 'web-job' and x.id = c.id and x.status in ('attempting', 'in_doubt'))) as in_doubt
from chosen c
