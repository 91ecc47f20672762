update perdure.database set stopped = $1
