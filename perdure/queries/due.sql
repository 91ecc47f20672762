-- Whether anything is due for delivery; asked often, so it takes one round trip and no lock.
select exists (select from perdure.outbox where not_before <= clock_timestamp())
