"""What an author declares: effects, look-ups, policies, outcomes, keys, states. No I/O.

The names that nearly every lifecycle has are exported from `perdure`; here are the others.
"""

from perdure.contracts.app_rows import AppRows as AppRows
from perdure.contracts.erasure import Erasure as Erasure
from perdure.contracts.keys import Key as Key
from perdure.contracts.limits import RateLimit as RateLimit
from perdure.contracts.outcomes import EffectStatus as EffectStatus
from perdure.contracts.problems import Problem as Problem
from perdure.contracts.states import State as State
