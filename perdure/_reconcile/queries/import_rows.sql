-- Imports rows. It leaves out those whose lifecycle was started meanwhile, by somebody else.
select id, answer, answer = 'in_doubt' or has_doubts as in_doubt
from (
    select x.id, jsonb_array_length(x.doubts) > 0 as has_doubts,
        perdure.import_row($1, x.id, x.input, $2, tenant => x.tenant, doubts => x.doubts) as answer
    from jsonb_to_recordset($3::jsonb) x (id text, input jsonb, tenant text, doubts jsonb)
    offset 0
) imported
where answer in ('started', 'in_doubt')
