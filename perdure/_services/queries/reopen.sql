-- Opens the rows of these entities to all relays again, because the row before them is gone: $1 lifecycles, $2 ids.
update perdure.outbox o set declined = '{}'
from unnest($1::text[], $2::text[]) k(lifecycle, id)
where o.lifecycle = k.lifecycle and o.id = k.id and o.declined <> '{}'
