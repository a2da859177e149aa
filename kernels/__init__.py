"""The compiled half of fastldp: formulas on lanes of runs. Neither validates nor prints."""
