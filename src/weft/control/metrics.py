"""/metrics, by the official client. Worked out when asked for, so there is nothing to keep in step."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from weft.control.company import company
from weft.control.house import House
from weft.control.measuring import interference_ratio
from weft.control.memory import memory_json
from weft.control.record import State
from weft.control.views import nodes_json
from weft.core.reasons import Code

CONTENT_TYPE = CONTENT_TYPE_LATEST
MEMORY = {
    "persistent_bytes": "Device memory that outlives a step",
    "ephemeral_bytes": "The most device memory that a step has besides",
    "overflow_bytes": "Of these, what does not fit and is in the next tier",
    "peak_bytes": "The most that was on the devices at once",
    "limit_bytes": "Device memory it may use",
}
BUCKETS_S = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)


def exposition(house: House) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Now(house))
    return generate_latest(registry)


class _Now:
    """What is so at this instant, and what has been counted in the log."""

    def __init__(self, house: House) -> None:
        self._house = house

    def collect(self) -> Iterator[Metric]:
        yield from self._jobs()
        yield from self._devices()
        yield from self._counted()
        yield from self._per_job()

    def _jobs(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("weft_jobs", "Jobs by state", labels=["state"])
        counts = self._house.counts()
        for state in State:
            jobs.add_metric([state], counts.get(state, 0))
        yield jobs

    def _devices(self) -> Iterator[Metric]:
        devices = GaugeMetricFamily("weft_devices", "Devices by node and state", labels=["node", "state"])
        for node in nodes_json(self._house.desk, self._house.link.is_up):
            states = [device["state"] for device in node["devices"]]
            for state in ("free", "busy", "unmanaged"):
                devices.add_metric([node["name"], state], states.count(state))
        yield devices
        yield self._guests()
        yield GaugeMetricFamily("weft_nodes_up", "Nodes whose coordinator answers", value=int(self._house.link.is_up))

    def _guests(self) -> Metric:
        guests = GaugeMetricFamily("weft_device_guests", "Jobs on a device they do not hold", labels=["node", "device"])
        for node in nodes_json(self._house.desk, self._house.link.is_up):
            for device in node["devices"]:
                guests.add_metric([node["name"], str(device["index"])], len(device["guests"]))
        return guests

    def _counted(self) -> Iterator[Metric]:
        preempted = CounterMetricFamily("weft_preemptions", "Preemptions, by reason", labels=["reason"])
        counted = self._house.store.one("preemptions")
        preempted.add_metric([Code.PREEMPTED_FOR], counted["preemptions"] if counted else 0)
        yield preempted
        waits = [row["wait_s"] for row in self._house.store.all("recent_waits")]
        buckets = [(f"{bound:g}", float(sum(wait <= bound for wait in waits))) for bound in BUCKETS_S]
        yield HistogramMetricFamily(
            "weft_wait_seconds",
            "From submission to the first start, of the last 10,000 jobs that started",
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
        beside = company(self._house.desk.scheduler.ledger)
        preemptions = GaugeMetricFamily("weft_job_preemptions", "How often it was preempted", labels=labels)
        memory = {
            name: GaugeMetricFamily(f"weft_job_device_memory_{name}", about, labels=labels)
            for name, about in MEMORY.items()
        }
        for record in self._house.desk.records.values():
            if record.is_alive:
                who = [record.id, record.name]
                rate.add_metric(who, record.step_rate_hz or 0.0)
                steps.add_metric(who, record.steps)
                host.add_metric(who, record.host_bytes)
                preemptions.add_metric(who, record.preemptions)
                kept = interference_ratio(self._house.desk.job(record.id), beside.get(record.id, ()))
                if kept is not None:
                    ratio.add_metric(who, kept)
                for name, size in memory_json(record.memory, record.request).items():
                    if size is not None:
                        memory[name].add_metric(who, size)
        yield from (rate, steps, host, preemptions, ratio, *memory.values())
