-- Records a finding; returns true if it is new: $1 kind, $2 lifecycle, $3 id, $4 about, $5 generation, $6 what, $7 advice,
-- $8 mended, $9 run.
insert into perdure.finding as f (kind, lifecycle, id, about, generation, what, advice, mended, run)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (kind, lifecycle, id, about) do update set
    generation = excluded.generation, what = excluded.what, advice = excluded.advice, mended = excluded.mended, run = excluded.run,
    last_seen = clock_timestamp(),
    first_seen = case when f.mended and not excluded.mended then clock_timestamp() else f.first_seen end
returning xmax = 0 or first_seen = last_seen
