-- Refuses an unusable name of a lifecycle, or an unusable id. An id has no invisible characters, and none that change how the text
-- around it is shown: `unseen` has the same characters as UNSEEN in perdure/_text/shown.py. Percent-encoded, an id is part of the keys of its effects, and an index takes no key of more than 2,700 bytes.
create or replace function perdure.check_entity(verb text, lifecycle text, entity_id text) returns void
language plpgsql immutable set search_path = perdure, pg_temp as $$
declare
    unseen constant text collate "C" := E'[\u0001-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f'
        '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb'
        '\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]';
begin
    if coalesce(check_entity.lifecycle, '') !~ '^[a-z][a-z0-9_-]{0,62}$' then
        raise exception 'perdure.%: % is not the name of a lifecycle', verb, coalesce(quote_literal(check_entity.lifecycle), 'null')
            using hint = 'Give the name in its @workflow.defn(name=...): a-z, 0-9, _ and -.', errcode = 'invalid_parameter_value';
    end if;
    if entity_id ~ unseen then
        raise exception 'perdure.%: % can not be an entity id: it has characters that can not be seen', verb,
                quote_literal(regexp_replace(left(entity_id, 60), unseen, chr(65533), 'g'))
            using hint = 'Give the key of your row without them, 1 to 900 bytes.', errcode = 'invalid_parameter_value';
    end if;
    if entity_id is null or octet_length(entity_id) not between 1 and 900 or entity_id <> btrim(entity_id)
        or octet_length(entity_id) + 2 * length(regexp_replace(entity_id, '[^%/~]', '', 'g')) > 1500
    then
        raise exception 'perdure.%: % can not be an entity id', verb, coalesce(quote_literal(left(entity_id, 60)), 'null')
            using hint = 'Give the key of your row: printable, 1 to 900 bytes; 1500 where each %, / and ~ counts as three.',
                errcode = 'invalid_parameter_value';
    end if;
end $$;
