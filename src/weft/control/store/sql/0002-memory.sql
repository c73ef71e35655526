-- What was measured of a job's device memory; 0 where nothing was.
ALTER TABLE jobs ADD COLUMN persistent_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN ephemeral_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN overflow_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN peak_bytes INTEGER NOT NULL DEFAULT 0;
