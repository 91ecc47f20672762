-- Applies the fence part of a write, except the begin of an attempt: an outcome, a resolution, a note, a loss or a bar.
create or replace function perdure.work_fence(w jsonb) returns text
language plpgsql set search_path = perdure, pg_temp as $$
declare
    f jsonb := w->'fence';
begin
    if perdure.epoch() > 0 and perdure.doubt_lost_record(w) then
        null; -- an earlier outcome finds a lost record too, and is settled below as a late one
    elsif (f->>'op' = 'lost' or f->>'op' = 'outcome' and f->>'status' = 'not_done')
        and not exists (select from perdure.effect where key = f->>'key') then
        perform perdure.bar_attempts(w);
        return 'standing';
    end if;
    case f->>'op'
        when 'outcome', 'resolve' then
            return perdure.settle_attempt(w);
        when 'note' then
            update perdure.effect set lookup_hint = f->'lookup_hint' where key = f->>'key' and token = f->>'token';
            return case when found then 'stored' else 'standing' end;
        when 'lost' then
            update perdure.effect set version = greatest(version, (w->>'version')::bigint),
                status = case when status = 'attempting' then 'in_doubt' else status end,
                why = case when status = 'attempting' then f->>'why' else why end where key = f->>'key';
            return 'standing';
        when 'bar' then
            perform perdure.bar_attempts(w);
            return 'standing';
        else
            return 'standing';
    end case;
end $$;
