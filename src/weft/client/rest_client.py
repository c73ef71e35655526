"""`weft.Client`: the verbs of the command line, from Python. A job is a dict, as in JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from weft.client.job_request import checked_id, job_request
from weft.client.queries import Queries
from weft.client.transport import ANSWER_S, Job
from weft.system.home import Home

if TYPE_CHECKING:
    from typing import Unpack

    from weft.client.job_request import Options


class Client(Queries):
    """A client of the daemon of one home.

    A request that is cut off because the daemon restarts is sent again; no job is submitted twice. Use a client in one
    thread at a time. Errors are `weft.core.errors.WeftError` with a message and a hint: `InputError` for a request
    that cannot be done as written, `NotRunningError` where there is no daemon.

    Args:
        home: The folder of the daemon; WEFT_HOME or ~/.weft if not given.
        start: Start a daemon if none runs.
        timeout_s: How long one answer may take.

    Example:
        >>> import weft
        >>> with weft.Client(start=True) as client:
        ...     job = client.run(["echo", "hello"], name="greeting")
        ...     print(job["state"], *client.logs(job["id"]))
        SUCCEEDED hello
        <BLANKLINE>
    """

    def __init__(
        self, home: Home | str | os.PathLike[str] | None = None, start: bool = False, timeout_s: float = ANSWER_S
    ) -> None:
        found = Home.find() if home is None else home
        super().__init__(found if isinstance(found, Home) else Home(Path(found).expanduser().resolve()), timeout_s)
        if start:
            from weft.client.daemon_start import start_daemon

            start_daemon(self.home)

    @overload
    def submit(self, command: str | Sequence[str], array: None = None, **options: Unpack[Options]) -> str: ...

    @overload
    def submit(self, command: str | Sequence[str], array: str, **options: Unpack[Options]) -> list[str]: ...

    def submit(
        self, command: str | Sequence[str], array: str | None = None, **options: Unpack[Options]
    ) -> str | list[str]:
        """Put a job into the queue; it is on disk when this returns.

        Args:
            command: The program and its arguments, or one text that is split as a shell would.
            array: Indices as in "1-10%4": one job for each, at most four at a time.
            options: As the options of `weft submit`: gpus, ntasks, gpu_mem, time, name, after, ... Sizes and times
                are numbers, in bytes and seconds, or text: gpu_mem="4G", time="2h". The job gets this process's
                folder, umask and environment unless cwd, umask or env is given.

        Returns:
            The id of the job; of an array, the ids of its elements.

        Example:
            >>> first = client.submit("sleep 0", name="prepare", time="10m")
            >>> sweep = client.submit(["sh", "-c", "exit $WEFT_ARRAY_INDEX"], array="0-1", after=first)
            >>> len(sweep)
            2
        """
        answer = self.send(job_request(command, array, options))
        return str(answer["id"]) if array is None else [str(each) for each in answer["ids"]]

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """Submit a request that `job_request` made. It carries an id of its own, so repeating it makes no second job.

        Args:
            request: As POST /v1/jobs reads it.

        Returns:
            The answer: `id`, `ids`, and `array` for an array.

        Example:
            >>> from weft.client.job_request import job_request
            >>> answer = client.send(job_request(["true"], None, {"hold": True}))
            >>> answer["ids"] == [answer["id"]]
            True
        """
        named = {**request, "request_id": os.urandom(16).hex()}
        answer: dict[str, Any] = self._ask("POST", "/v1/jobs", named)
        return answer

    def run(self, command: str | Sequence[str], **options: Unpack[Options]) -> Job:
        """Submit a job and wait until it has ended.

        Args:
            command: As for `submit`.
            options: As for `submit`.

        Returns:
            The job.

        Example:
            >>> client.run(["sh", "-c", "exit 3"])["exit_code"]
            3
        """
        return self.wait(self.submit(command, **options))

    def cancel(self, *job_ids: str) -> list[str]:
        """End jobs, whether they wait or run; the number of an array means all its elements.

        Returns:
            The ids of the jobs that are ending now.

        Example:
            >>> job_id = client.submit("sleep 60")
            >>> client.cancel(job_id) == [job_id]
            True
        """
        return self._tell("cancel", job_ids)

    def hold(self, *job_ids: str) -> list[str]:
        """Keep waiting jobs from starting until `release`; `InputError` for a job that runs.

        Returns:
            The ids of the jobs whose state changed.

        Example:
            >>> job_id = client.submit("true", begin="now+1h")
            >>> client.hold(job_id) == [job_id]
            True
        """
        return self._tell("hold", job_ids)

    def release(self, *job_ids: str) -> list[str]:
        """Let jobs start that were held, or go on that were paused.

        Returns:
            The ids of the jobs whose state changed.

        Example:
            >>> job_id = client.submit("true", hold=True)
            >>> client.release(job_id) == [job_id]
            True
        """
        return self._tell("release", job_ids)

    def pause(self, *job_ids: str) -> list[str]:
        """Pause running jobs at their next step boundary, and keep waiting ones from starting, until `resume`.

        Returns:
            The ids of the jobs whose state changed.

        Example:
            >>> job_id = client.submit("true", begin="now+1h")
            >>> client.pause(job_id) == [job_id]
            True
        """
        return self._tell("pause", job_ids)

    def resume(self, *job_ids: str) -> list[str]:
        """Let jobs go on that their owner paused or held.

        Returns:
            The ids of the jobs whose state changed.

        Example:
            >>> job_id = client.submit("true", hold=True)
            >>> client.resume(job_id) == [job_id]
            True
        """
        return self._tell("resume", job_ids)

    def rerun(self, job_id: str) -> str:
        """Submit an ended job again: the same command, folder, environment and options.

        Returns:
            The id of the new job; for the number of an array, the number of the new array.

        Example:
            >>> first = client.run("true")
            >>> client.rerun(first["id"]) != first["id"]
            True
        """
        named = {"request_id": os.urandom(16).hex()}
        answer: dict[str, Any] = self._ask("POST", f"/v1/jobs/{checked_id(job_id)}/rerun", named)
        return str(answer["ids"][0] if len(answer["ids"]) == 1 else answer["id"])

    def policy(self, name: str | None = None) -> str:
        """The scheduling policy.

        Args:
            name: Change to this policy, as `weft up --policy` takes it. No job is restarted.

        Example:
            >>> client.policy("fifo")
            'fifo'
        """
        answer = self._ask("GET", "/v1/policy") if name is None else self._ask("PUT", "/v1/policy", {"policy": name})
        return str(answer["policy"])

    def shutdown(self, stop_jobs: bool = False) -> float:
        """Stop the daemon and its coordinator. Running jobs go on, and the next daemon adopts them.

        Args:
            stop_jobs: Stop running jobs as well; waiting ones stay in the queue.

        Returns:
            For how many seconds the daemon may still wait for the processes of the jobs that it stops.

        Example:
            >>> client.shutdown(stop_jobs=True) >= 0
            True
        """
        answer = self._ask("POST", "/v1/shutdown", {"stop_jobs": stop_jobs}, again=False)
        return float(answer.get("within_s", 0.0))

    def _tell(self, what: str, job_ids: Sequence[str]) -> list[str]:
        checked = [checked_id(job_id) for job_id in job_ids]
        return [each for job_id in checked for each in self._ask("POST", f"/v1/jobs/{job_id}/{what}")["ids"]]
