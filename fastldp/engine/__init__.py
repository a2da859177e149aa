"""How runs are run: in blocks of lanes, over threads, segment by segment."""
