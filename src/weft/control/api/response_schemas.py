"""What REST answers, for its description. Times are ISO 8601 in UTC; null is unknown or does not apply."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from weft.control.loop.job_state import JobState
from weft.core.text import WAITING_TIME


class SubmittedModel(BaseModel):
    id: str
    ids: list[str] = Field(description="of an array, those of its elements")


class Changed(BaseModel):
    ids: list[str]


class GoingDown(Changed):
    within_s: float = Field(description="how long the end of the jobs that are being ended is waited for")


class Problem(BaseModel):
    error: str
    hint: str = ""
    array: bool = Field(False, description="whether the id is that of an array: /v1/arrays tells of it")


class MemoryModel(BaseModel):
    """On its devices, over all its tasks, as the native library measures it; null where there is none."""

    persistent_bytes: int | None = Field(description="what outlives a step: the model, the optimizer's state")
    ephemeral_bytes: int | None = Field(description="the most that a step has besides")
    overflow_bytes: int | None = Field(description="of these, what does not fit and is in the next tier")
    peak_bytes: int | None = Field(description="the most that was on the devices at once")
    limit_bytes: int | None = Field(description="what it may use, if it said so")


class LossModel(BaseModel):
    """The attempt before the present one was lost: how it would have ended is not known."""

    attempt: int
    at: str
    message: str
    step: int = Field(description="where the next attempt begins: at its last checkpoint; 0 is the beginning")


class JobModel(BaseModel):
    id: str
    name: str
    tenant: str
    job_class: Literal["auto", "guaranteed", "opportunistic"] = Field(alias="class")
    state: JobState
    reason: str
    exit_code: int | None
    attempt: int
    devices: list[str]
    submitted_at: str
    started_at: str | None
    finished_at: str | None
    steps: int
    step_rate_hz: float | None
    declared_steps: int | None
    command: list[str]
    cwd: str
    gpus: int
    ntasks: int
    array: str | None
    array_index: int | None
    after: list[str]
    position: int | None = Field(description="in the queue")
    metrics: dict[str, float | None]
    eta_s: float | None
    run_s: float
    wait_s: float = Field(description=WAITING_TIME)
    preemptions: int
    unseats: int = Field(description="how often it had to leave a seat on devices of others")
    losses: int = Field(description="how many of its attempts were lost")
    loss: LossModel | None = Field(description="the loss after which its present attempt began, or its next one will")
    guaranteed: bool = Field(description="whether it has a part of its tenant's quota now")
    guest: bool = Field(description="whether it computes on devices that it does not hold")
    beside: list[str] = Field(description="the other jobs that compute on its devices")
    lane: int | None = Field(description="in which lane of its device it takes turns")
    interference_ratio: float | None = Field(description="its rate beside these jobs as a part of its rate alone")
    share: bool = Field(description="whether others may compute on its devices beside it")
    migrate: bool = Field(description="whether it may be moved where that pays")
    weight: float = Field(description="where jobs take turns, its part of the time against that of others")
    priority: int = Field(description="among the jobs of its tenant, those of a higher priority go first")
    cpus: int | None = Field(description="CPU cores that each task needs")
    gpu_ids: list[int] | None = Field(description="the devices that it named")
    begin_at: str | None = Field(description="it does not start before")
    output: str | None = Field(description="where it was told to write what it prints")
    retries: int
    time_s: float | None
    split: bool
    stdin: bool = Field(description="whether it takes input")
    tty: bool = Field(description="whether it has a terminal")
    log: str
    pids: list[int]
    host_bytes: int
    memory: MemoryModel


class OneJob(JobModel):
    env: dict[str, str] = Field(description="the names are true, the values hidden")


class Jobs(BaseModel):
    """A page. Jobs that come or go between two pages make no other job appear twice, or not at all."""

    jobs: list[JobModel]
    total: int = Field(description="of all pages together, as of now")
    next_cursor: str | None = Field(description="for the next page; null: this is the last")


class Group(BaseModel):
    """Elements of an array in one state for one reason."""

    state: JobState
    reason: str
    exit_code: int | None
    jobs: int
    first: str | None = Field(description="the id of one of them")


class Array(BaseModel):
    """All elements of an array together."""

    id: str
    name: str
    tenant: str
    job_class: Literal["auto", "guaranteed", "opportunistic"] = Field(alias="class")
    command: list[str]
    cwd: str
    array: str
    elements: int
    states: dict[str, int] = Field(description="how many elements are in each state")
    groups: list[Group] = Field(description="the same by reason; the largest, and the others of a state together")
    submitted_at: str
    started_at: str | None = Field(description="of the first to start")
    finished_at: str | None = Field(description="of the last to end, once all have")
    run_s: float = Field(description="of all together")


class Ended(BaseModel):
    id: str
    state: JobState
    exit_code: int | None
    reason: str


class Waited(BaseModel):
    is_over: bool = Field(description="whether what was waited for has happened, and not the timeout")
    jobs: int = Field(description="how many the ids stand for")
    states: dict[str, int]
    unsuccessful: list[str] = Field(description="those of the ids of which a job has failed or was cancelled")
    first: Ended | None = Field(description="the first of them to end")


class Ahead(BaseModel):
    id: str
    name: str
    gang_size: int
    state: JobState
    attained_s: float


class Estimate(BaseModel):
    starts_in_s: float | None
    how: str


class Preemption(BaseModel):
    at: str
    by: str
    reason: str
    depth: str | None = None
    how: str | None = None
    step: int | None = None
    waited_s: float | None = None
    held_bytes: int | None = Field(None, description="of memory, while it paused")
    paused_s: float | None


class Decision(BaseModel):
    at: str
    what: Literal["Start", "Preempt", "Seat", "Unseat", "Noted", "HeldBack"]
    reason: str


class Why(BaseModel):
    id: str
    state: JobState
    reason: str
    guest: bool = Field(description="whether it computes on devices that it does not hold")
    beside: list[str] = Field(description="the other jobs that compute on its devices")
    loss: LossModel | None = Field(description="the loss after which its present attempt began, or its next one will")
    rule: str
    ahead: list[Ahead]
    ahead_count: int
    held_by: list[Ahead] = Field(description="the jobs that run now")
    estimate: Estimate
    preemptions: list[Preemption]
    decisions: list[Decision] = Field(description="all that was decided about it, in order")
    text: list[str] = Field(description="all of it as text")


class Happening(BaseModel):
    at: str
    what: str
    text: str


class Happenings(BaseModel):
    events: list[Happening]


class DeviceModel(BaseModel):
    index: int
    kind: str
    type: str
    name: str
    memory_bytes: int
    cores: list[int]
    blocked_by: str | None
    state: Literal["free", "busy", "unmanaged"]
    jobs: list[str]
    guests: list[str] = Field(description="of these jobs, those that do not hold it")
    used_bytes: int = Field(description="by the jobs that run there, as far as it is measured")


class NodeModel(BaseModel):
    name: str
    state: Literal["up", "away"]
    cpus: int | None = Field(description="CPU cores that jobs may use")
    cpus_declared: int | None = Field(description="of these, what the jobs that compute have declared to need")
    devices: list[DeviceModel]


class Nodes(BaseModel):
    nodes: list[NodeModel]


class LostJob(BaseModel):
    id: str
    name: str
    step: int | None = Field(description="where it begins again; 0 is the beginning; null: it does not")


class Health(BaseModel):
    version: str
    pid: int
    policy: str
    started_at: str
    now: str
    home: str
    nodes: int
    jobs: dict[str, int]
    settling: int = Field(description="attempts that ended while the coordinator was away; it has yet to report how")
    lost: list[LostJob] = Field(description="the jobs that lost an attempt since the daemon began")
    warnings: list[str]
