-- The record of an effect, in the form of a write's answer; null = no record.
create or replace function perdure.effect_view(wanted text) returns jsonb
language plpgsql set search_path = perdure, pg_temp as $$
begin
    return (select jsonb_build_object(
        'status', status, 'token', token, 'attempts', attempts, 'version', version, 'first_at', perdure.utc(first_at),
        'since_first', extract(epoch from clock_timestamp() - first_at),
        'in_doubt_for', coalesce(extract(epoch from clock_timestamp() - perdure.in_doubt_since(e)), 0),
        'in_flight', extract(epoch from deadline - clock_timestamp()),
        'receipt', receipt, 'lookup_hint', lookup_hint, 'why', why)
    from perdure.effect e where key = wanted);
end $$;
