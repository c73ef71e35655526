-- How often a job had to leave a seat that it had on devices of others.
ALTER TABLE jobs ADD COLUMN unseats INTEGER NOT NULL DEFAULT 0;
-- By which an attempt takes turns, if it is in a lane.
ALTER TABLE attempts ADD COLUMN lane_base INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN lane_weight INTEGER NOT NULL DEFAULT 1;
