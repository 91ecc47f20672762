-- Raises each sequence to the greatest number on record: logical replication copies rows, and no sequence.
create or replace function perdure.raise_sequences() returns void
language plpgsql set search_path = perdure, pg_temp as $$
begin
    perform setval(x.sequence, x.last) from (values
            ('transition_seq'::regclass, greatest((select max(seq) from transition), (select max(seq) from carried_transition))),
            (pg_get_serial_sequence('outbox', 'seq')::regclass, greatest((select max(seq) from outbox), (select max(seq) from rejected))),
            (pg_get_serial_sequence('reconciliation', 'run')::regclass, (select max(run) from reconciliation))
        ) x (sequence, last)
        where x.last > coalesce(pg_sequence_last_value(x.sequence), 0);
    -- What the app has added before may have the number of a rejected row, and could not be rejected.
    update outbox set seq = default where seq in (select seq from rejected);
end $$;
