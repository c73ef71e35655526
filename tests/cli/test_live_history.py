"""`weft simulate --history` over what a real daemon has run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from livehome import Live


def test_jobs_too_large_for_the_cluster_are_skipped_and_the_same_jobs_are_compared(own: Live) -> None:
    own.up()
    small = [own.submit("--", "sleep", "0.3"), own.submit("--class", "opportunistic", "--", "sleep", "0.2")]
    large = [own.submit("--gpus", "2", "--", "sleep", "0.2") for _ in range(2)]
    for job_id in (*small, *large):
        own.is_("SUCCEEDED", job_id)
    done = own.weft("simulate", "--history", "--cluster", "1x1", "--policy", "fifo,weft", "--json", "runs.json")
    assert done.returncode == 0, done.stderr
    told = json.loads(Path("runs.json").read_text())
    assert [each["jobs"] for each in told["runs"]] == [2, 2]
    assert [each["id"] for each in told["skipped"]] == large
    each = "each is a gang of 2, and the cluster has only 1 device"
    assert f"note: 2 jobs are skipped ({', '.join(large)}): {each}\n" in done.stderr
    assert "note: every policy gets the other 2 of 4 jobs\n" in done.stderr
    said = " ".join(done.stdout.split())
    assert "weft heeds classes: opportunistic jobs yield; fifo treats all jobs as peers." in said
    waited_s = [own.job(job_id)["wait_s"] for job_id in small]
    past = re.findall(r"mean wait: (\S+) s as it was → .* under (\w+)", done.stderr)
    assert [policy for _, policy in past] == ["fifo", "weft"]
    assert all(abs(float(said_s) - sum(waited_s) / 2) <= 0.01 * max(1.0, sum(waited_s)) for said_s, _ in past)
