with started as materialized (
    select x.id, perdure.start($1, x.id, x.input, x.tenant, priority => 5) as answer
    from jsonb_to_recordset($2::jsonb) x (id text, input jsonb, tenant text)
)
select id, perdure.note($1, id, $3, $4) from started where answer = 'started'
