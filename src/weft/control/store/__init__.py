"""The log on disk: one SQLite file, its integrity, its backups and its repair."""
