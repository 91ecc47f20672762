select * from perdure.database for update
