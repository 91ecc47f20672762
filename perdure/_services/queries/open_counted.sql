select count(*) from perdure.entity
