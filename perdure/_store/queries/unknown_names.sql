-- What rows of the outbox are due for and no relay that runs knows: lifecycles, and signals of lifecycles.
select lifecycle, signal, perdure.name_unknown(lifecycle, signal) as name, waiting, since
from perdure.unknown_names() order by lifecycle, signal
