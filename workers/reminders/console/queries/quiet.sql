-- How many patients have which quiet hours.
select begins, ends, patients from reminders.quiet
