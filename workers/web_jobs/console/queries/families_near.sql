-- How many families one page has looked through, and the last of them.
select count(*) as families, max(master) as last
from (select master from web_job.family where master > $1 order by master limit $2) near
