"""Long queues: thousands of jobs, pages asked for in every wrong way, and listings while everything changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from box import Attack, Box

from waiting import PATIENCE_S
from weft.client.unix_http import Connection

HELD = 3_000
"""Of one array that never starts: the queue that all attacks meet."""
WRONG = (
    ("a limit of 0", "limit=0"),
    ("a negative limit", "limit=-1"),
    ("a limit beyond a page", "limit=1001"),
    ("a limit of a hundred digits", "limit=" + "9" * 100),
    ("a limit that is no number", "limit=all"),
    ("a cursor that is no id", "cursor=last"),
    ("a cursor with a quote", "cursor=" + quote("1' OR 1=1 --")),
    ("a cursor of a hundred digits", "cursor=" + "9" * 100),
    ("a cursor with a zero byte", "cursor=1%00"),
    ("a state that there is not", "state=ASLEEP"),
    ("a prefix with a pattern in it", "prefix=" + quote("*[0-9]")),
    ("a name of a megabyte", "name=" + "x" * 60_000),
)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """As for other attacks, but a coordinator that a busy machine keeps from answering is waited for."""
    box = Box(tmp_path_factory.mktemp("many"), settings="silent_s = 60\nstop_grace_s = 1\npause_grace_s = 2\n")
    try:
        box.up()
        box.add_bystander()
        yield box
        box.finish_bystanders()
    finally:
        box.close()


@pytest.fixture(scope="module")
def held(box: Box) -> str:
    """The number of a long array."""
    status, answer = box.rest("POST", "/v1/jobs", {"command": ["true"], "array": f"1-{HELD}", "hold": True, "env": {}})
    assert status == 201, answer
    return str(answer["id"])


def pages(box: Box, query: str = "") -> list[dict[str, Any]]:
    """All pages, each asked for with the cursor of the one before."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        status, page = box.rest("GET", f"/v1/jobs?{query}{cursor}")
        assert status == 200, page
        found.append(page)
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [job["id"] for page in found for job in page["jobs"]]


@pytest.mark.parametrize(("what", "query"), WRONG, ids=[what for what, _ in WRONG])
def test_what_is_malformed_is_refused_with_a_hint(box: Box, held: str, attack: Attack, what: str, query: str) -> None:
    with attack(f"many jobs: {what}"):
        status, answer = box.rest("GET", f"/v1/jobs?{query}")
        assert status in (400, 414, 422), answer
        assert answer["error"]
        assert answer["hint"]


def test_every_job_is_on_exactly_one_page(box: Box, held: str, attack: Attack) -> None:
    with attack("many jobs: pages of seven jobs"):
        found = pages(box, f"limit=7&prefix={held}_1")
        listed = ids(found)
        assert (
            len(listed) == len(set(listed)) == found[0]["total"] == sum(str(at)[0] == "1" for at in range(1, HELD + 1))
        )
    with attack("many jobs: all pages at their largest"):
        found = pages(box)
        assert {page["total"] for page in found} == {len(ids(found))}
        assert set(ids(found)) >= {f"{held}_{at}" for at in range(1, HELD + 1)}


def test_a_cursor_stands_for_a_place_and_not_for_a_job(box: Box, held: str, attack: Attack) -> None:
    with attack("many jobs: a cursor whose job has gone"):
        box.rest("POST", f"/v1/jobs/{held}_2000/cancel")
        status, page = box.rest("GET", f"/v1/jobs?limit=2&cursor={held}_2000")
        assert (status, ids([page])) == (200, [f"{held}_2001", f"{held}_2002"])
    with attack("many jobs: a cursor behind all jobs"):
        status, page = box.rest("GET", f"/v1/jobs?cursor={'9' * 15}_{'9' * 7}")
        assert (status, page["jobs"], page["next_cursor"]) == (200, [], None)
    with attack("many jobs: a cursor of history that has not ended"):
        status, answer = box.rest("GET", f"/v1/history?cursor={held}_1")
        assert (status, answer["error"]) == (400, f"job {held}_1 has not ended")
    with attack("many jobs: a cursor of history that never was"):
        status, answer = box.rest("GET", f"/v1/history?cursor={'9' * 15}")
        assert status == 404, answer


def test_listings_while_jobs_come_and_go_miss_none_that_stays(box: Box, held: str, attack: Attack) -> None:
    stays = {f"{held}_{at}" for at in range(1, 1_500)}

    more = iter(range(30))  # an end to them: a listing that never catches up would never end

    def come(connection: Connection) -> None:
        next(more)
        body = b'{"command": ["true"], "hold": true, "env": {}, "array": "1-50"}'
        status, _ = connection.request("POST", "/v1/jobs", body, PATIENCE_S)
        assert status == 201

    gone = iter(range(2_100, HELD))

    def cancel(connection: Connection) -> None:
        status, _ = connection.request("POST", f"/v1/jobs/{held}_{next(gone)}/cancel", None, PATIENCE_S)
        assert status == 200

    for what, query in (("live jobs", "limit=100"), ("live and ended jobs", "limit=100&all=true")):
        with attack(f"many jobs: listing {what} while others submit and cancel"), _meanwhile(box, come, cancel):
            for _ in range(2):
                listed = ids(pages(box, query))
                assert len(listed) == len(set(listed)), "a job is listed twice"
                assert stays <= set(listed), "a job is missing"


def test_readers_in_numbers_do_not_keep_a_writer_waiting_for_ever(box: Box, held: str, attack: Attack) -> None:
    def read(connection: Connection) -> None:
        for target in ("/v1/jobs?limit=1000", f"/v1/jobs/{held}_1500/why", "/metrics", "/v1/nodes"):
            status, _ = connection.request("GET", target, None, PATIENCE_S)
            assert status == 200

    with attack("many jobs: four clients that only read, and one that submits"), _meanwhile(box, *[read] * 4):
        for _ in range(5):
            status, answer = box.rest("POST", "/v1/jobs", {"command": ["true"], "env": {}})
            assert status == 201, answer
            assert box.wait_for(answer["id"])["state"] == "SUCCEEDED"


def test_an_array_may_come_after_an_array(box: Box, held: str, attack: Attack) -> None:
    with attack("many jobs: 3,000 elements that each come after 3,000"):
        asked = {"command": ["true"], "array": "1-3000", "env": {}}
        status, before = box.rest("POST", "/v1/jobs", {**asked, "hold": True})
        assert status == 201, before
        status, answer = box.rest("POST", "/v1/jobs", {**asked, "after": [before["id"]] * 50})
        assert status == 201, answer
        first = box.job(answer["ids"][0])
        assert "more" in first["reason"]
        assert len(first["reason"]) < 500
    with attack("many jobs: an end that 3,000 others wait for"):
        box.rest("POST", f"/v1/jobs/{before['id']}_1/cancel")
        assert box.job(answer["ids"][-1])["state"] == "CANCELLED"
        box.rest("POST", f"/v1/jobs/{before['id']}/cancel")


def test_a_whole_array_is_cancelled_at_once(box: Box, held: str, attack: Attack) -> None:
    with attack("many jobs: cancelling thousands at once"):
        status, answer = box.rest("POST", f"/v1/jobs/{held}/cancel")
        assert status == 200
        assert len(answer["ids"]) > 1_000
        assert box.rest("GET", f"/v1/jobs?prefix={held}_")[1]["total"] == 0
        assert box.rest("GET", f"/v1/jobs?prefix={held}_&all=true")[1]["total"] == HELD
    with attack("many jobs: cancelling them again"):
        status, answer = box.rest("POST", f"/v1/jobs/{held}/cancel")
        assert status == 409, answer


class _meanwhile:  # noqa: N801 - read as a word in a with statement
    """Others do this again and again, each over a connection of its own, until the block ends."""

    def __init__(self, box: Box, *work: Callable[[Connection], None]) -> None:
        self._over = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._work, args=(str(box.socket), each)) for each in work]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert not self._errors, self._errors

    def _work(self, path: str, work: Callable[[Connection], None]) -> None:
        connection = Connection(path)
        try:
            while not self._over.is_set():
                work(connection)
        except StopIteration:
            pass
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            self._errors.append(error)
        finally:
            connection.close()
