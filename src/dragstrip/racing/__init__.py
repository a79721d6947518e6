"""One race from request to record: qualify, calibrate, then rounds of launches and blocks."""
