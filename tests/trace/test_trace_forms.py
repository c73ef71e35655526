"""The forms of published traces: each is recognised by its header and read for what it means."""

from __future__ import annotations

import pytest

from weft.sim.trace import FORMS, read_trace

HEADERS = {
    "plain": "arrival,duration,gang",
    "philly": "timestamp,duration,num_gpus,gpu_time,cluster",
    "philly-json": "[",
    "helios": ("job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"),
    "pai": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "tiresias": "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
    "allox": "job,user,cpu_s,gpu_s",
    "gavel": "A3C\tpython3 train.py\trl\t--max-steps\t0\t800\t1\t1\t-1.000000\t0",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_header_fits_its_own_form_and_no_other(form):
    fitting = [name for name, layouts in FORMS.items() if any(layout.fits(HEADERS[form]) for layout in layouts)]
    assert fitting == [form]


def test_a_philly_table_is_read_with_its_cluster_as_tenant(write):
    rows = "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 07:00:55,9.5,8,76.0,6214e9\n\n"
    trace = read_trace([write(f"{HEADERS['philly']}\n{rows}")])
    assert [(j.arrival_s, j.duration_s, j.spec.gang_size, j.spec.tenant) for j in trace] == [
        (0.0, 9.5, 8, "6214e9"),
        (60.0, 66.0, 1, "11cb48"),
    ]
    assert list(trace.ids) == ["job-2", "job-1"]


@pytest.mark.parametrize("form", [None, "helios", "pai"])
def test_the_derived_tables_of_helios_and_pai_are_one_layout(write, form):
    trace = read_trace([write("job_id,arrival_s,service_sec,gpu_count\nx#1,5.0,172800.0,32\n")], form=form)
    [job] = trace
    assert (job.spec.id, job.duration_s, job.spec.gang_size) == ("x#1", 172800.0, 32)


def test_the_jobs_of_helios_that_need_no_gpu_are_left_out_and_counted(write):
    rows = (
        "1,u1,vcA,n,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:05,2020-04-01 00:01:05,60,q\n"
        "2,u2,vcB,n,8,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:15,2020-04-01 00:01:15,60,q\n"
    )
    trace = read_trace([write(f"{HEADERS['helios']}\n{rows}")])
    [job] = trace
    assert (job.spec.id, job.spec.tenant, job.spec.gang_size, job.arrival_s) == ("2", "vcB", 8, 0.0)
    assert trace.left_out == {"needs no GPU": 1}


def test_a_task_of_pai_is_a_job_of_whole_gpus(write):
    rows = (
        "j1,worker,4,Terminated,100,160,600,29,250.0,V100\n"
        "j1,ps,2,Terminated,100,150,600,29,,CPU\n"
        "j2,worker,2.0,Terminated,90,95,600,29,25,MISC\n"
        "j3,worker,1,Running,120,,600,29,100,T4\n"
        "j4,worker,1,Waiting,,,600,29,100,T4\n"
    )
    trace = read_trace([write(f"{HEADERS['pai']}\n{rows}")])
    assert [(j.spec.id, j.arrival_s, j.duration_s, j.spec.gang_size) for j in trace] == [
        ("j2/worker", 0.0, 5.0, 2),
        ("j1/worker", 10.0, 60.0, 12),
    ]
    assert trace.device_types == frozenset()
    assert trace.left_out == {"plans no GPU": 1, "never started": 1, "not finished": 1}


def test_a_tiresias_workload_keeps_its_models(write):
    [job] = read_trace([write(f"{HEADERS['tiresias']}\n7,2,53,157,inception4,127,26\n")])
    assert (job.spec.id, job.spec.gang_size, job.duration_s, job.spec.model) == ("7", 2, 127.0, "inception4")


def test_the_jobs_of_allox_arrive_together_and_run_on_either_type(write):
    trace = read_trace([write(f"{HEADERS['allox']}\n0,queue0,780.0,390.0\n1,queue1,7508.0,803.0\n")])
    first, second = trace
    assert (first.arrival_s, second.arrival_s) == (0.0, 0.0)
    assert first.spec.step_rate_hz == {"cpu": 1.0, "gpu": 2.0}
    assert trace.device_types == {"cpu", "gpu"}
    assert trace.tenants == ("queue0", "queue1")
