-- The turn has ended: $1 what had closed before that was looked at, $2 $3 the last open entity that was compared.
update perdure.watch set closed_since = $1, lifecycle = $2, id = $3
