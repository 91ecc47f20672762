delete from perdure.relay where id = $1
