"""The workbench: time, faults and pauses of a broker, for whoever tests what its clients do."""
