select count(*) from perdure.rejected
