-- Who changed a job type, the newest first.
select seq, what, fields, note, made_by, session_role, at
from web_job.type_change where type = $1 and seq < coalesce($2::bigint, 9223372036854775807) order by seq desc limit $3
