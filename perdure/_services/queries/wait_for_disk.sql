-- Lets the commit wait for the disk: a repeated delivery keeps the places of messages only if they were on disk before it.
select set_config('synchronous_commit', current_setting('perdure.synchronous_commit'), true)
