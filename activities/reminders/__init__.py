"""Starts and withdraws the doses of patients, in the app's database."""
