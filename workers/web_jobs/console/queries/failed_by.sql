-- A page of the children that had failed by a moment.
select j.id from web_job.job j
where j.parent = $1 and j.state = 'failed' and j.id > $2
    and not exists (
        select from perdure.finished x where x.lifecycle = 'web-job' and x.id = j.id and x.finished_at > $3)
order by j.id limit $4
