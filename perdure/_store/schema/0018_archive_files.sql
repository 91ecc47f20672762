-- What a file of the archive may hold is known before the file is written. It only adds: workers of earlier releases run on it.

-- Every path that an export of the month may have written to, also one that was cut off, or that went to another folder.
alter table perdure.month add column paths text[] not null default '{}';
update perdure.month m set paths = array(select f ->> 'path' from jsonb_array_elements(m.files) f);
