-- Records the end of the turn: $1 the close time up to which it looked, $2 and $3 the last open entity that it compared.
update perdure.watch set closed_since = $1, lifecycle = $2, id = $3
