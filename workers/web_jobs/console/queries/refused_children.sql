-- Children that could not become jobs, as the page of their master lists them.
select id, page, why, refused_at from web_job.refused_child where master = $1 order by id limit $2
