select lifecycle, id, kind, tries, error, not_before from perdure.outbox order by not_before limit 50;
