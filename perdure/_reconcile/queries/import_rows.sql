select x.id, perdure.import_row($1, x.id, x.input, $2, doubts => x.doubts) as answer
from jsonb_to_recordset($3::jsonb) x (id text, input jsonb, doubts jsonb)
