-- Applies the write $3, and waits for a session that holds the entity $1, $2, where perdure.apply_writes alone would not.
select perdure.apply_writes($3::jsonb)
from (select from perdure.ident where lifecycle = $1 and id = $2 for no key update) held
