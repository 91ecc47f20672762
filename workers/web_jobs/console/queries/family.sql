-- One family, with the row of its master.
select f.*, j.type, j.state, j.parent, j.inserted_at
from web_job.family f left join web_job.job j on j.id = f.master
where f.master = $1
