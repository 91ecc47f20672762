"""When a rule of a plan is due: RFC 5545 recurrence rules in IANA zones. It reads nothing but the zone database."""
