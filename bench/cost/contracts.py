"""The application's contracts twice: with the effect as an activity, and inline."""

from activities.contracts.mail import mail_contracts
from perdure import seconds

SEND, FIND = mail_contracts(timeout=seconds(20), settle=seconds(30))
SEND_INLINE, FIND_INLINE = mail_contracts(timeout=seconds(5), settle=seconds(30), inline=True)
