-- Changes whenever something of the entity $1, $2 is put on record, or an attempt is past its deadline. Not every change is a
-- transition: the outcome of an attempt, a message and a rejection are none. `xmin` is the last transaction that wrote a row.
select concat_ws(' ',
    (select max(t.version) from perdure.transition t where t.lifecycle = $1::text collate "C" and t.id = $2::text collate "C"),
    (select e.xmin from perdure.entity e where e.lifecycle = $1::text collate "C" and e.id = $2::text collate "C"),
    (select sum(hashtextextended(concat_ws(' ', f.key, f.xmin, f.status = 'attempting' and f.deadline < clock_timestamp()), 0))
        from perdure.effect f where f.lifecycle = $1::text collate "C" and f.id = $2::text collate "C"),
    (select sum(hashtextextended(concat_ws(' ', m.message_id, m.xmin), 0))
        from perdure.message m where m.lifecycle = $1::text collate "C" and m.id = $2::text collate "C"),
    (select sum(hashtextextended(concat_ws(' ', o.seq, o.xmin), 0))
        from perdure.outbox o where o.lifecycle = $1::text collate "C" and o.id = $2::text collate "C"),
    (select sum(j.seq) from perdure.rejected j where j.lifecycle collate "C" = $1::text collate "C" and j.id collate "C" = $2::text collate "C"))
