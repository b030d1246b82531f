"""Area 04: pipelined regions, what fails over with what, who is scheduled when, which results may go."""
