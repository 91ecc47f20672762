-- The applied migrations, with the oldest worker that each allows, and the applied functions, with the SHA-256 of their file and the
-- release that applied it.
create or replace function perdure.schema_version() returns jsonb
language plpgsql stable security definer set search_path = perdure, pg_temp as $$
begin
    return jsonb_build_object(
        'migrations', (
            select coalesce(jsonb_agg(jsonb_build_object('number', m.number, 'oldest', m.oldest) order by m.number), '[]')
            from migration m),
        'functions', (
            select coalesce(jsonb_agg(jsonb_build_object('name', f.name, 'sha256', f.sha256, 'release', f.release) order by f.name), '[]')
            from applied_function f));
end $$;
