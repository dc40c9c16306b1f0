"""The report: one HTML file that an operator reads in a minute."""
