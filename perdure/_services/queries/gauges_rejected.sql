-- Rejected rows that nobody has retried or dropped yet.
select lifecycle, kind, count(*) as rejected from perdure.rejected group by lifecycle, kind
