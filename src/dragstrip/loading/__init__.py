"""``dragstrip load``: load on one URL, in a closed or an open loop."""
