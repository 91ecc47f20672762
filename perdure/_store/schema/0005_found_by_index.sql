-- Doubts of one effect and reason, the oldest first. A reason may be longer than an index takes, so its hash stands here.
create index effect_doubts on perdure.effect (lifecycle, split_part(effect, '/', 1), md5(coalesce(why, '')), deadline, key)
    where status = 'in_doubt';
-- What people did, among transitions that nobody made.
create index transition_by_person on perdure.transition (seq) where made_by is not null;
-- What reconciliations saw, in the order in which it is shown.
create index finding_in_order on perdure.finding (mended, first_seen, kind, lifecycle, id, about);
