-- Whether commits that add to the outbox notify the relay $1 from now on.
update perdure.relay set notified = $2 where id = $1 and notified <> $2
