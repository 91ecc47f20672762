"""What an operator does and suffers on the days after the first, each for real and under load."""
