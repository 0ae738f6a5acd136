"""The SQLite file itself: opening it, who else has it, flushing it, and what is done where a process is forked."""
