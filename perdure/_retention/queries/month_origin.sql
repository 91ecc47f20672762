select format('%s.%s.%s', i.system_identifier, i.database_oid, perdure.epoch()) as origin, perdure.database_problem() as problem
from perdure.incarnation() i
