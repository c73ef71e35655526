-- The log is the truth: what happened and what was decided, in order. Rows of one instant have the same time.
CREATE TABLE log (
  seq  INTEGER PRIMARY KEY,
  at   REAL NOT NULL,
  kind TEXT NOT NULL,
  job  TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX log_of_a_job ON log (job, seq) WHERE job IS NOT NULL;

-- The ledger as it was after a row of the log; a restart goes on from the last one.
CREATE TABLE snapshots (
  seq  INTEGER PRIMARY KEY,
  at   REAL NOT NULL,
  body TEXT NOT NULL
) STRICT;

-- When the last instant was, by the clock that no one can set.
CREATE TABLE clock (
  only    INTEGER PRIMARY KEY CHECK (only = 1),
  at      REAL NOT NULL,
  boot_id TEXT NOT NULL,
  boot_s  REAL NOT NULL
) STRICT;

CREATE TABLE settings (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Most jobs of a user come with one and the same environment, so it is kept once, as long as one of them lives.
CREATE TABLE environments (
  id     INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  body   TEXT NOT NULL
) STRICT;

CREATE TABLE jobs (
  id           TEXT PRIMARY KEY,
  number       INTEGER NOT NULL,
  array_index  INTEGER,
  name         TEXT NOT NULL,
  tenant       TEXT NOT NULL,
  class        TEXT NOT NULL CHECK (class IN ('auto', 'guaranteed', 'opportunistic')),
  state        TEXT NOT NULL CHECK (state IN ('PENDING', 'RUNNING', 'PAUSED', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
  reason       TEXT NOT NULL DEFAULT '',
  exit_code    INTEGER,
  attempt      INTEGER NOT NULL DEFAULT 0,
  is_alive     INTEGER NOT NULL DEFAULT 0 CHECK (is_alive IN (0, 1)),
  failures     INTEGER NOT NULL DEFAULT 0,
  losses       INTEGER NOT NULL DEFAULT 0,
  preemptions  INTEGER NOT NULL DEFAULT 0,
  submitted_at REAL NOT NULL,
  started_at   REAL,
  finished_at  REAL,
  not_before   REAL,
  ending       TEXT,
  run_s        REAL NOT NULL DEFAULT 0,
  wait_s       REAL NOT NULL DEFAULT 0,
  steps        INTEGER NOT NULL DEFAULT 0,
  step_rate_hz REAL,
  request      TEXT NOT NULL,
  environment  INTEGER REFERENCES environments (id),
  CHECK ((finished_at IS NULL) = (state IN ('PENDING', 'RUNNING', 'PAUSED'))),
  CHECK (state <> 'SUCCEEDED' OR exit_code IS 0),
  UNIQUE (number, array_index)
) STRICT, WITHOUT ROWID;
CREATE INDEX live_jobs ON jobs (number, array_index) WHERE finished_at IS NULL;
CREATE INDEX ended_jobs ON jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX states ON jobs (state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX users_of_environments ON jobs (environment) WHERE environment IS NOT NULL;
CREATE INDEX namesakes ON jobs (name, finished_at) WHERE state = 'SUCCEEDED';

-- A submission that is sent again, because its answer was lost, is the same submission.
CREATE TABLE requests (
  request_id TEXT PRIMARY KEY,
  number     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  job        TEXT NOT NULL,
  attempt    INTEGER NOT NULL,
  devices    TEXT NOT NULL,
  granted_at REAL NOT NULL,
  started_at REAL,
  ended_at   REAL,
  outcome    TEXT CHECK (outcome IN ('ended', 'left', 'lost')),
  exit_code  INTEGER,
  PRIMARY KEY (job, attempt),
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;
-- Two attempts of a job never live at once.
CREATE UNIQUE INDEX one_attempt_at_a_time ON attempts (job) WHERE ended_at IS NULL;
