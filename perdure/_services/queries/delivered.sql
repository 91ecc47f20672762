-- Records the delivery of rows: $1 lifecycles, $2 ids, $3 seqs, $4 the first states of started entities, null for other rows.
-- Messages stay until the entity's end, for a recovery; one that was sent while the end was being committed is deleted here. A
-- started entity enters its first state, unless its run is writing a state at this moment, or it was restarted since. The app's
-- column shows it after a restart, in place of the last end; after a first start, it has what the app wrote.
with gone as (
    delete from perdure.outbox o using unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) k(lifecycle, id, seq, state)
    where o.lifecycle = k.lifecycle and o.id = k.id and o.seq = k.seq
    returning o.lifecycle, o.id, o.generation, o.message_id, k.state
), begun as (
    update perdure.entity e set state = x.first_state, since = clock_timestamp()
    from (
        select y.lifecycle, y.id, gone.state as first_state
        from perdure.entity y join gone on gone.lifecycle = y.lifecycle and gone.id = y.id and gone.generation = y.generation
        where y.state = 'starting' and gone.state is not null
        for no key update of y skip locked
    ) x
    where e.lifecycle = x.lifecycle and e.id = x.id
    returning e.lifecycle, e.id, e.generation
), shown as (
    insert into perdure.behind (lifecycle, id, version, app_table, app_column, app_key)
    select i.lifecycle, i.id, i.version, c.app_table, c.state_column, c.key_column
    from begun join perdure.ident i on i.lifecycle = begun.lifecycle and i.id = begun.id
    join perdure.app_column c on c.lifecycle = begun.lifecycle
    where begun.generation > 0
    on conflict do nothing
), sent as (
    select m.lifecycle, m.id, m.generation, m.message_id, i.final is not null or i.generation > m.generation as over
    from gone join perdure.message m
        on m.lifecycle = gone.lifecycle and m.id = gone.id and m.generation = gone.generation and m.message_id = gone.message_id
    left join perdure.ident i on i.lifecycle = m.lifecycle and i.id = m.id
), late as (
    delete from perdure.message m using sent
    where sent.over and m.lifecycle = sent.lifecycle and m.id = sent.id and m.generation = sent.generation
        and m.message_id = sent.message_id
)
update perdure.message m set delivered_at = clock_timestamp()
from sent where sent.over is not true and m.lifecycle = sent.lifecycle and m.id = sent.id and m.generation = sent.generation
    and m.message_id = sent.message_id
