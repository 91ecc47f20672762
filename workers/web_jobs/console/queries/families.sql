-- Families among the next ones by their master's id: every one, those whose master has not ended, or those with failures.
with near as materialized (select * from web_job.family where master > $1 order by master limit $2)
select f.*, j.type, j.state
from near f left join web_job.job j on j.id = f.master
where case $3
    when 'running' then coalesce(j.state not in ('complete', 'failed', 'cancelled'), false)
    when 'failures' then f.failed + f.cancelled + f.refused > 0
    else true end
order by f.master limit $4
