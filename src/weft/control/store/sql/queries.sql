-- name: append
INSERT INTO log (at, kind, job, body, checksum) VALUES (:at, :kind, :job, :body, :checksum);

-- name: append_at
INSERT INTO log (seq, at, kind, job, body, checksum) VALUES (:seq, :at, :kind, :job, :body, :checksum);

-- name: log_after
SELECT at, kind, body FROM log WHERE seq > ? ORDER BY seq;

-- name: log_of_job
SELECT at, kind, body FROM log WHERE job = ? ORDER BY seq;

-- name: last_loss
SELECT at, body FROM log WHERE job = ? AND kind = 'Reported' AND body ->> '$.what' = 'lost' ORDER BY seq DESC LIMIT 1;

-- name: last_seq
SELECT coalesce(max(seq), 0) AS seq FROM log;

-- name: last_snapshot
SELECT seq, at, body FROM snapshots ORDER BY seq DESC LIMIT 1;

-- name: rows_since_snapshot
SELECT count(*) AS rows FROM log WHERE seq > (SELECT coalesce(max(seq), 0) FROM snapshots);

-- name: put_snapshot
INSERT OR REPLACE INTO snapshots (seq, at, body, checksum) VALUES (:seq, :at, :body, :checksum);

-- name: drop_older_snapshots
DELETE FROM snapshots WHERE seq < ?;

-- name: drop_old_log
-- The row of the snapshot itself stays: its number must not be given again.
-- Times rise with numbers, so only what is old is looked at.
DELETE FROM log WHERE seq < min(?1, coalesce((SELECT seq FROM log WHERE at >= ?2 ORDER BY seq LIMIT 1), ?1)) AND (job IS NULL OR job IN (SELECT id FROM jobs WHERE finished_at < ?2));

-- name: forget_environments
-- Kept for `weft rerun`: of jobs that ended since ?1, and of no more than ?2 of them.
UPDATE jobs SET environment = NULL WHERE finished_at IS NOT NULL AND environment IS NOT NULL AND finished_at <= max(?1,
  coalesce((SELECT finished_at FROM jobs WHERE finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT 1 OFFSET ?2), ?1));

-- name: drop_unused_environments
DELETE FROM environments WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE environment = environments.id);

-- name: environments
SELECT digest, id FROM environments;

-- name: drop_old_requests
DELETE FROM requests WHERE number IN
  (SELECT number FROM jobs GROUP BY number HAVING count(*) = count(finished_at) AND max(finished_at) < ?);

-- name: put_clock
INSERT INTO clock (only, at, boot_id, boot_s, checksum) VALUES (1, :at, :boot_id, :boot_s, :checksum)
ON CONFLICT (only) DO UPDATE SET at = excluded.at, boot_id = excluded.boot_id, boot_s = excluded.boot_s,
  checksum = excluded.checksum;

-- name: clock
SELECT at, boot_id, boot_s FROM clock;

-- name: put_setting
INSERT INTO settings (name, value, checksum) VALUES (:name, :value, :checksum)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum;

-- name: setting
SELECT value FROM settings WHERE name = ?;

-- name: put_environment
INSERT INTO environments (id, digest, body) VALUES (?, ?, ?);

-- name: environment
SELECT body FROM environments WHERE id = ?;

-- name: put_job
INSERT INTO jobs (id, number, array_index, name, tenant, class, state, reason, exit_code, attempt, is_alive, failures,
  losses, preemptions, unseats, submitted_at, started_at, finished_at, not_before, ending, run_s, wait_s, steps, step_rate_hz,
  persistent_bytes, ephemeral_bytes, overflow_bytes, peak_bytes, request, environment, checksum)
VALUES (:id, :number, :array_index, :name, :tenant, :class, :state, :reason, :exit_code, :attempt, :is_alive, :failures,
  :losses, :preemptions, :unseats, :submitted_at, :started_at, :finished_at, :not_before, :ending, :run_s, :wait_s, :steps, :step_rate_hz,
  :persistent_bytes, :ephemeral_bytes, :overflow_bytes, :peak_bytes, :request, :environment, :checksum)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, reason = excluded.reason, exit_code = excluded.exit_code,
  attempt = excluded.attempt, is_alive = excluded.is_alive, failures = excluded.failures, losses = excluded.losses,
  preemptions = excluded.preemptions, unseats = excluded.unseats, started_at = excluded.started_at, finished_at = excluded.finished_at,
  not_before = excluded.not_before, ending = excluded.ending, run_s = excluded.run_s, wait_s = excluded.wait_s, steps = excluded.steps,
  step_rate_hz = excluded.step_rate_hz, persistent_bytes = excluded.persistent_bytes,
  ephemeral_bytes = excluded.ephemeral_bytes, overflow_bytes = excluded.overflow_bytes, peak_bytes = excluded.peak_bytes,
  checksum = excluded.checksum;

-- name: live_jobs
-- Read column by column, in this order, by record_of.
SELECT id, number, array_index, request, environment, submitted_at, attempt, is_alive, failures, losses, preemptions,
  unseats, started_at, not_before, ending, steps, step_rate_hz, persistent_bytes, ephemeral_bytes, overflow_bytes,
  peak_bytes
FROM jobs WHERE finished_at IS NULL ORDER BY number, array_index;

-- name: live_rows
SELECT * FROM jobs WHERE finished_at IS NULL ORDER BY number, array_index;

-- name: job
SELECT * FROM jobs WHERE id = ?;

-- name: elements
SELECT id, state FROM jobs WHERE number = ? ORDER BY array_index;

-- name: first_element
SELECT * FROM jobs WHERE number = ? ORDER BY array_index LIMIT 1;

-- name: element_counts
-- How many jobs of a submission there are, and how many of them have ended.
SELECT count(*) AS jobs, count(finished_at) AS ended, min(submitted_at) AS submitted_at, min(started_at) AS started_at,
  max(finished_at) AS finished_at, total(CASE WHEN finished_at IS NULL THEN 0 ELSE run_s END) AS run_s
FROM jobs WHERE number = ? AND array_index IS NOT NULL;

-- name: ended_groups
SELECT state, reason, exit_code, count(*) AS jobs, min(array_index) AS first FROM jobs
WHERE number = ? AND finished_at IS NOT NULL GROUP BY state, reason, exit_code ORDER BY jobs DESC, first;

-- name: first_ended
SELECT id, state, exit_code, reason, finished_at FROM jobs WHERE number = ? AND finished_at IS NOT NULL
ORDER BY finished_at, array_index LIMIT 1;

-- name: ended_page
-- Behind a place in the order of ids; of a single job the array index is NULL, which is behind nothing.
SELECT * FROM jobs WHERE finished_at IS NOT NULL AND (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR name = ?2)
  AND (?3 IS NULL OR tenant = ?3) AND (?4 IS NULL OR id GLOB ?4 || '*')
  AND number >= ?5 AND (number > ?5 OR array_index > ?6)
ORDER BY number, array_index LIMIT ?7;

-- name: ended_count
SELECT count(*) AS count FROM jobs WHERE finished_at IS NOT NULL AND (?1 IS NULL OR state = ?1)
  AND (?2 IS NULL OR name = ?2) AND (?3 IS NULL OR tenant = ?3) AND (?4 IS NULL OR id GLOB ?4 || '*');

-- name: ended_before
SELECT * FROM jobs WHERE finished_at IS NOT NULL AND (?1 IS NULL OR (finished_at, id) < (?1, ?2))
ORDER BY finished_at DESC, id DESC LIMIT ?3;

-- name: lost_for_good
-- Jobs that were lost after a time and are not tried again.
SELECT id, name FROM jobs WHERE state = 'FAILED' AND finished_at >= ? AND reason GLOB 'was lost*'
ORDER BY number, array_index;

-- name: services
SELECT run_s * (request ->> '$.gpus') AS service FROM jobs WHERE state = 'SUCCEEDED' AND finished_at IS NOT NULL
ORDER BY finished_at DESC LIMIT ?;

-- name: counts
SELECT state, count(*) AS jobs FROM jobs WHERE finished_at IS NOT NULL GROUP BY state;

-- name: last_number
-- A restored log may lack the jobs that had the last numbers: these are not given again.
SELECT max(coalesce((SELECT max(number) FROM jobs), 0),
  coalesce((SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'last number'), 0)) AS number;

-- name: namesake
SELECT run_s, steps FROM jobs WHERE state = 'SUCCEEDED' AND name = ? ORDER BY finished_at DESC LIMIT 1;

-- name: namesakes
SELECT run_s, steps, (SELECT json_group_array(json(devices)) FROM attempts WHERE job = jobs.id) AS devices FROM jobs
WHERE state = 'SUCCEEDED' AND name = ? ORDER BY finished_at DESC LIMIT ?;

-- name: mean_run
SELECT avg(run_s) AS run_s FROM (SELECT run_s FROM jobs WHERE state = 'SUCCEEDED' AND finished_at IS NOT NULL
  ORDER BY finished_at DESC LIMIT 100);

-- name: put_request
INSERT INTO requests (request_id, number, checksum) VALUES (:request_id, :number, :checksum);

-- name: request
SELECT number FROM requests WHERE request_id = ?;

-- name: put_attempt
INSERT INTO attempts (job, attempt, devices, lane_base, lane_weight, granted_at, started_at, ended_at, outcome, exit_code,
  checksum)
VALUES (:job, :attempt, :devices, :lane_base, :lane_weight, :granted_at, :started_at, :ended_at, :outcome, :exit_code,
  :checksum)
ON CONFLICT (job, attempt) DO UPDATE SET devices = excluded.devices, lane_base = excluded.lane_base,
  lane_weight = excluded.lane_weight, granted_at = excluded.granted_at, started_at = excluded.started_at,
  ended_at = excluded.ended_at, outcome = excluded.outcome, exit_code = excluded.exit_code,
  checksum = excluded.checksum;

-- name: live_attempts
SELECT * FROM attempts WHERE ended_at IS NULL;

-- name: attempts_of_job
SELECT * FROM attempts WHERE job = ? ORDER BY attempt;

-- name: preemptions
SELECT coalesce(sum(preemptions), 0) AS preemptions FROM jobs;

-- name: recent_waits
SELECT wait_s FROM jobs WHERE started_at IS NOT NULL AND finished_at IS NOT NULL
ORDER BY finished_at DESC LIMIT 10000;
