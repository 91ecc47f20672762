-- Names that rows of the outbox need and that no running relay has: lifecycles, and signals of lifecycles.
select lifecycle, signal, perdure.name_unknown(lifecycle, signal) as name, waiting, since
from perdure.unknown_names() order by lifecycle, signal
