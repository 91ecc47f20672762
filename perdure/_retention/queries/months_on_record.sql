select * from perdure.month
