-- The findings that reconciliations left for a person, by kind.
select kind, count(*) as found from perdure.finding where not mended group by kind
