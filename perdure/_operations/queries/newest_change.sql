-- Changes whenever something is put on record: of the entity $1, $2, or of everything where they are null.
select case when $1::text is null then (select max(t.seq) from perdure.transition t)::text
    else concat_ws(' ',
        (select max(t.version) from perdure.transition t where t.lifecycle = $1::text collate "C" and t.id = $2::text collate "C"),
        (select max(f.attempt_at) from perdure.effect f where f.lifecycle = $1::text collate "C" and f.id = $2::text collate "C"))
    end
