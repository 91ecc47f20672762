"""What a sleeping patient costs, and how late a reminder is, beside as many Temporal Schedules."""
