delete from perdure.app_column where lifecycle = $1
