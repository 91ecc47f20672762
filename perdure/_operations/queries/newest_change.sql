-- Changes whenever something of the entity $1, $2 is put on record.
select concat_ws(' ',
    (select max(t.version) from perdure.transition t where t.lifecycle = $1::text collate "C" and t.id = $2::text collate "C"),
    (select max(f.attempt_at) from perdure.effect f where f.lifecycle = $1::text collate "C" and f.id = $2::text collate "C"))
