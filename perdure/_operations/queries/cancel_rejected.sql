-- Why the cancel of an entity was rejected: $1 lifecycle, $2 id, $3 id of that message; no row if it was not.
select r.reason from perdure.rejected r where r.lifecycle = $1 and r.id = $2 and r.message_id = $3
