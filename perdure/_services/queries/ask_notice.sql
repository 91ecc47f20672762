-- Sets whether commits that add rows to the outbox notify the relay $1.
update perdure.relay set notified = $2 where id = $1 and notified <> $2
