"""/metrics, by the official client. Computed on request, so nothing has to be kept up to date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from weft.control.api.views import Json, memory_json, nodes_json
from weft.control.loop.inventory import neighbours_by_job
from weft.control.loop.job_state import JobState
from weft.control.loop.reports import interference_ratio
from weft.control.service import ControlService
from weft.control.store.log_store import LogStore
from weft.core.reasons import Code
from weft.core.text import WAITING_TIME
from weft.core.value import value

CONTENT_TYPE = CONTENT_TYPE_LATEST
MEMORY = {
    "persistent_bytes": "Device memory that outlives a step",
    "ephemeral_bytes": "The most device memory that a step has besides",
    "overflow_bytes": "Of these, what does not fit and is in the next tier",
    "peak_bytes": "The most that was on the devices at once",
    "limit_bytes": "Device memory it may use",
}
BUCKETS_S = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)


@value
class SeenJob:
    """What is told of a job that has processes."""

    labels: list[str]
    step_rate_hz: float
    steps: int
    host_bytes: int
    preemptions: int
    interference_ratio: float | None
    memory: Mapping[str, int | None]


@value
class SeenNow:
    """All that is told and not in the database."""

    counts: Mapping[str, int]
    nodes: Sequence[Json]
    is_up: bool
    jobs: Sequence[SeenJob]


def seen_now(service: ControlService) -> SeenNow:
    """To be called while no instant is under way."""
    control, is_up = service.control, service.link.is_up
    beside = neighbours_by_job(control.scheduler.ledger)
    jobs = [
        SeenJob(
            [record.id, record.name],
            record.step_rate_hz or 0.0,
            record.steps,
            record.host_bytes,
            record.preemptions,
            interference_ratio(control.job(record.id), beside.get(record.id, ())),
            memory_json(record.memory, record.request),
        )
        for record in control.live_jobs.alive_after()
    ]
    return SeenNow(service.counts.all, nodes_json(control, is_up), is_up, jobs)


def exposition(store: LogStore, seen: SeenNow) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Now(store, seen))
    return generate_latest(registry)


class _Now:
    """What is so at this instant, and what has been counted in the log."""

    def __init__(self, store: LogStore, seen: SeenNow) -> None:
        self._store = store
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        yield from self._jobs()
        yield from self._devices()
        yield from self._counted()
        yield from self._per_job()

    def _jobs(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("weft_jobs", "Jobs by state", labels=["state"])
        counts = self._seen.counts
        for state in JobState:
            jobs.add_metric([state], counts.get(state, 0))
        yield jobs

    def _devices(self) -> Iterator[Metric]:
        devices = GaugeMetricFamily("weft_devices", "Devices by node and state", labels=["node", "state"])
        for node in self._seen.nodes:
            states = [device["state"] for device in node["devices"]]
            for state in ("free", "busy", "unmanaged"):
                devices.add_metric([node["name"], state], states.count(state))
        yield devices
        yield self._guests()
        yield GaugeMetricFamily("weft_nodes_up", "Nodes whose coordinator answers", value=int(self._seen.is_up))

    def _guests(self) -> Metric:
        guests = GaugeMetricFamily("weft_device_guests", "Jobs on a device they do not hold", labels=["node", "device"])
        for node in self._seen.nodes:
            for device in node["devices"]:
                guests.add_metric([node["name"], str(device["index"])], len(device["guests"]))
        return guests

    def _counted(self) -> Iterator[Metric]:
        preempted = CounterMetricFamily("weft_preemptions", "Preemptions, by reason", labels=["reason"])
        counted = self._store.one("preemptions")
        preempted.add_metric([Code.PREEMPTED_FOR], counted["preemptions"] if counted else 0)
        yield preempted
        waits = [row["wait_s"] for row in self._store.all("recent_waits")]
        buckets = [(f"{bound:g}", float(sum(wait <= bound for wait in waits))) for bound in BUCKETS_S]
        yield HistogramMetricFamily(
            "weft_wait_seconds",
            f"Of each of the last 10,000 jobs that started and ended, {WAITING_TIME}",
            buckets=[*buckets, ("+Inf", float(len(waits)))],
            sum_value=sum(waits),
        )

    def _per_job(self) -> Iterator[Metric]:
        labels = ["job", "name"]
        rate = GaugeMetricFamily("weft_job_step_rate_hertz", "Steps a second", labels=labels)
        steps = GaugeMetricFamily("weft_job_steps", "Steps completed", labels=labels)
        host = GaugeMetricFamily("weft_job_host_memory_bytes", "Host memory of its tasks", labels=labels)
        ratio = GaugeMetricFamily(
            "weft_job_interference_ratio", "Its rate beside others as a part of its rate alone", labels=labels
        )
        preemptions = GaugeMetricFamily("weft_job_preemptions", "How often it was preempted", labels=labels)
        memory = {
            name: GaugeMetricFamily(f"weft_job_device_memory_{name}", about, labels=labels)
            for name, about in MEMORY.items()
        }
        for job in self._seen.jobs:
            rate.add_metric(job.labels, job.step_rate_hz)
            steps.add_metric(job.labels, job.steps)
            host.add_metric(job.labels, job.host_bytes)
            preemptions.add_metric(job.labels, job.preemptions)
            if job.interference_ratio is not None:
                ratio.add_metric(job.labels, job.interference_ratio)
            for name, size in job.memory.items():
                if size is not None:
                    memory[name].add_metric(job.labels, size)
        yield from (rate, steps, host, preemptions, ratio, *memory.values())
