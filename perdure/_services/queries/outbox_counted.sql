select count(*) from perdure.outbox
