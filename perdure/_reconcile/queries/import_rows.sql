select x.id, perdure.import_row($1, x.id, x.input, $2, x.effect, x.key, x.since, $3) as answer
from jsonb_to_recordset($4::jsonb) x (id text, input jsonb, effect text, key text, since timestamptz)
