with page as (
    select lifecycle, id, generation from perdure.entity where (lifecycle, id) > ($1::text, $2::text)
    order by lifecycle, id limit $3
), carried as (
    insert into perdure.carried_transition
            (lifecycle, id, generation, version, state, attention, why, made_by, at, xid, seq, effect, session_role)
        select t.lifecycle, t.id, t.generation, t.version, t.state, t.attention, t.why, t.made_by, t.at, t.xid, t.seq, t.effect, t.session_role
        from page join perdure.{transition} t using (lifecycle, id, generation)
        on conflict do nothing
)
select lifecycle, id from page order by lifecycle desc, id desc limit 1
