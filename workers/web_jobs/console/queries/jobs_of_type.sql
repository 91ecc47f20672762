-- Some of a type's jobs that are held, and some that failed.
(select id, state from web_job.job where type = $1 and state = 'held' order by id limit $2)
union all
(select id, state from web_job.job where type = $1 and state = 'failed' limit $2)
