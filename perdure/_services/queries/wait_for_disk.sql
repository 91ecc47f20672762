-- A repeated delivery keeps the places of messages only if their commit is on disk before anything is delivered by it.
select set_config('synchronous_commit', current_setting('perdure.synchronous_commit'), true)
