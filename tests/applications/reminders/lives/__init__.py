"""An independent judge of dosage reminders: random patients, played in virtual time, reckoned a second time."""
