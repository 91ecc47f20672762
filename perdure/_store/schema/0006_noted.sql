-- The version of the newest transition, where that is no write of the run; null = it is `version`. A run that does not know of it writes
-- an older version, and its transition gets a newer one: a follower may ignore a version that is not newer.
alter table perdure.ident add column noted bigint;
