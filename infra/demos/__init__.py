"""What `make demo`, `make demo-jobs` and `make demo-reminders` show."""
