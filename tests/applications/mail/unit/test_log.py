"""The look-up reads a mail log that a real Postfix 3.7 wrote: rotated, cut off and compressed."""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from activities.mail.contracts.mail import Accepted
from activities.mail.log_check import check_mail_log, check_server_log
from activities.mail.log_files import Log, LogUnusable, stamp_of
from activities.mail.mail_log import find_in_mail_log, search
from activities.mail.message_id import Sought
from activities.mail.smtp import send_mail
from infra.mail.server import At, Fault
from perdure import InDoubt, LookupContext, NotDone
from tests.applications.mail.fixtures import LETTER, attempt, mail_server, question, settings
from tests.mail_secret import token_of

FOLDER = Path(__file__).parents[1] / "logs"
OLD, NEW = "postfix_rfc3164.txt", "postfix_rfc3339.txt"
BEGUN = {OLD: datetime(2026, 11, 21, 3, 43, 0, tzinfo=UTC), NEW: datetime(2026, 11, 21, 3, 43, 58, tzinfo=UTC)}
ZONE = ZoneInfo("UTC")


def token(name: str) -> str:
    """The left side of the Message-ID with which a mail of the recorded logs was sent."""
    return hashlib.sha256(name.encode()).hexdigest()[:40]


def written(path: Path, text: bytes, at: datetime) -> Path:
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def recorded(folder: Path, name: str) -> Path:
    return written(folder / "mail.log", (FOLDER / name).read_bytes(), BEGUN[name] + timedelta(minutes=1))


def sought(name: str, since: datetime) -> Sought:
    """It, from and to whomever."""
    return Sought((token(name),), since)


@pytest.mark.parametrize(
    ("log", "mail", "queue_id", "delivery"),
    [
        (OLD, "sent", "6A4CCD00A5", "sent"),
        (OLD, "several", "7805DD00A5", "sent"),  # of three recipients one was accepted
        (OLD, "relayed", "8650ED00A7", "sent"),  # postfix/submission/smtpd took it, postfix-out/smtp sent it
        (OLD, "down", "911EED00A8", "deferred"),
        (OLD, "discarded-subject", "A6548D00A7", "discarded"),
        (OLD, "held", "B115DD00A7", "held"),
        (OLD, "warned", "BC002D00AC", "sent"),
        (OLD, "cutdot", "C7655D00AC", "sent"),  # the client was gone before the reply
        (OLD, "noquit", "C8650D00AD", "sent"),
        (NEW, "sent-later", "4jWdNZ5bfwz6Pbh", "sent"),  # deferred first
        (NEW, "filtered", "4jWdNd64Kjz6Pbk", "sent"),  # a content filter gave it back under a second queue id
        (NEW, "bounced", "4jWdNd6PlJz6Pbl", "bounced"),
        (NEW, "several", "4jWdNd6kdGz6Pbk", "deferred"),  # one recipient has it, the other not yet
    ],
)
def test_a_mail_that_the_server_took_is_found(
    tmp_path: Path, log: str, mail: str, queue_id: str, delivery: str
) -> None:
    found = search(recorded(tmp_path, log), sought(mail, BEGUN[log]), ZONE)
    assert found == Accepted(queue_id=queue_id, delivery=delivery)


@pytest.mark.parametrize(
    ("log", "mail"),
    [
        (OLD, "never sent"),
        (OLD, "rejected-rcpt"),
        (OLD, "rejected-subject"),  # its Message-ID is in the log; the final dot was answered by 550
        (OLD, "cut"),  # its Message-ID is in the log; the client hung up before the final dot
        (NEW, "cut"),
        (OLD, "forged"),  # its Message-ID is in the log, but in the subject of another mail
    ],
)
def test_a_mail_that_the_server_did_not_take_is_a_miss(tmp_path: Path, log: str, mail: str) -> None:
    assert search(recorded(tmp_path, log), sought(mail, BEGUN[log] + timedelta(seconds=2)), ZONE) is None


def test_a_mail_rejected_by_a_milter_is_a_miss(tmp_path: Path) -> None:
    log = lines(
        tmp_path,
        "smtpd[7]: 4WxyZ12345: client=localhost[127.0.0.1]",
        f"cleanup[8]: 4WxyZ12345: message-id=<{token('x')}@app.example>",
        "cleanup[8]: 4WxyZ12345: milter-reject: END-OF-MESSAGE from localhost[127.0.0.1]: 5.7.1 Command rejected; "
        "from=<news@app.example> to=<user@sent.example> proto=ESMTP helo=<app.example>",
    )
    assert search(log, sought("x", T0)) is None


def test_a_mail_still_on_its_way_in_can_not_be_told(tmp_path: Path) -> None:
    log = lines(
        tmp_path,
        "smtpd[7]: 4WxyZ12345: client=localhost[127.0.0.1]",
        f"cleanup[8]: 4WxyZ12345: message-id=<{token('x')}@app.example>",
    )
    with pytest.raises(LogUnusable, match="does not show yet whether 4WxyZ12345 was accepted"):
        search(log, sought("x", T0))


def test_the_end_of_an_earlier_session_proves_nothing_for_a_later_one_of_the_same_process_number(
    tmp_path: Path,
) -> None:
    log = lines(
        tmp_path,
        "smtpd[7]: connect from localhost[127.0.0.1]",
        "smtpd[7]: 4WxyZ12345: client=localhost[127.0.0.1]",
        f"cleanup[8]: 4WxyZ12345: message-id=<{token('x')}@app.example>",
        "master[1]: daemon started -- version 3.7.11",
        "smtpd[7]: connect from localhost[127.0.0.1]",
        "smtpd[7]: disconnect from localhost[127.0.0.1] ehlo=1 mail=1 rcpt=1 data=1 quit=1 commands=5",
    )
    with pytest.raises(LogUnusable, match="does not show yet"):
        search(log, sought("x", T0))


def test_a_queue_id_given_out_again_is_another_mail(tmp_path: Path) -> None:
    log = lines(
        tmp_path,
        "smtpd[7]: 6A4CC: client=localhost[127.0.0.1]",
        f"cleanup[8]: 6A4CC: message-id=<{token('x')}@app.example>",
        "smtpd[7]: disconnect from localhost[127.0.0.1] ehlo=1 mail=1 rcpt=1 data=0/1 commands=3/4",
        "smtpd[9]: 6A4CC: client=localhost[127.0.0.1]",
        f"cleanup[8]: 6A4CC: message-id=<{token('y')}@app.example>",
        "qmgr[2]: 6A4CC: from=<news@app.example>, size=352, nrcpt=1 (queue active)",
        "smtp[3]: 6A4CC: to=<a@b.example>, relay=none, delay=0.06, dsn=2.0.0, status=sent (ok)",
        "qmgr[2]: 6A4CC: removed",
    )
    assert search(log, sought("x", T0)) is None
    assert search(log, sought("y", T0)) == Accepted(queue_id="6A4CC", delivery="sent")


@pytest.mark.parametrize(
    ("usual", "other"),
    [(" mx.example postfix/", " mx.example mail info postfix/"), ("[8]: ", ": "), ("@app.example>", "@app.example>\r")],
)
def test_a_message_id_in_a_line_that_is_not_read_gives_no_miss(tmp_path: Path, usual: str, other: str) -> None:
    log = lines(tmp_path, f"cleanup[8]: 6A4CC: message-id=<{token('x')}@app.example>", "qmgr[2]: 6A4CC: removed")
    assert search(log, sought("x", T0)) == Accepted(queue_id="6A4CC", delivery="queued")
    text = log.read_text()
    written(log, text.replace(usual, other).encode(), T0 + timedelta(minutes=1))
    if usual == "@app.example>":
        assert search(log, sought("x", T0)) == Accepted(queue_id="6A4CC", delivery="queued")
    else:
        with pytest.raises(LogUnusable, match="Message-ID in a line that is not of Postfix's usual form"):
            search(log, sought("x", T0))
        written(log, (text + text.replace(usual, other)).encode(), T0 + timedelta(minutes=1))  # a milter's, beside it
        assert search(log, sought("x", T0)) == Accepted(queue_id="6A4CC", delivery="queued")


def test_a_status_quoted_in_a_reply_is_not_the_status(tmp_path: Path) -> None:
    log = lines(
        tmp_path,
        f"cleanup[8]: 6A4CC: message-id=<{token('x')}@app.example>",
        "smtp[3]: 6A4CC: to=<a@b.example>, relay=none, dsn=4.0.0, status=deferred (host said: 450 status=sent)",
    )
    assert search(log, sought("x", T0)) == Accepted(queue_id="6A4CC", delivery="deferred")


@pytest.mark.parametrize(
    ("envelope", "ours"),
    [
        (("from=<News@app.example>", "to=<user@sent.example>"), True),
        (("from=<news@app.example>", "to=<alias@sent.example>, orig_to=<User@Sent.example>"), True),
        (("from=<news@app.example>", "to=<archive@app.example>", "to=<user@sent.example>"), True),
        (("from=<eve@evil.example>", "to=<user@sent.example>"), False),
        (("from=<>", "to=<user@sent.example>"), False),
        (("from=<news@app.example>", "to=<eve@evil.example>"), False),
        (("from=<news@app.example>", 'to=<"x>, orig_to=<user@sent.example>, relay="@evil.example>'), False),
        (('from=<"news@app.example>, size=1, "@evil.example>', "to=<user@sent.example>"), False),
    ],
)
def test_a_mail_with_our_message_id_and_another_envelope_is_neither_a_hit_nor_a_miss(
    tmp_path: Path, envelope: tuple[str, ...], ours: bool
) -> None:
    sender, *recipients = envelope
    log = lines(
        tmp_path,
        "smtpd[7]: 6A4CC: client=localhost[127.0.0.1]",
        f"cleanup[8]: 6A4CC: message-id=<{token('x')}@app.example>",
        f"qmgr[2]: 6A4CC: {sender}, size=352, nrcpt={len(recipients)} (queue active)",
        *(f"smtp[3]: 6A4CC: {each}, relay=none, delay=0.06, dsn=2.0.0, status=sent (ok)" for each in recipients),
        "qmgr[2]: 6A4CC: removed",
    )
    exact = Sought((token("x"),), T0, "news@app.example", "user@sent.example")
    if ours:
        assert search(log, exact) == Accepted(queue_id="6A4CC", delivery="sent")
    else:
        with pytest.raises(LogUnusable, match="6A4CC has its Message-ID, and another sender, recipient or time"):
            search(log, exact)


@pytest.mark.parametrize(
    "delivery",
    [
        "virtual[3]: 6A4CC: to=<user@sent.example>, relay=virtual, delay=0.06, dsn=2.0.0, status=sent (delivered)",
        "smtp[3]: 6A4CC: to=<User@Sent.example>, relay=none, delay=3599, dsn=4.4.1, status=deferred (timed out)",
        "local[3]: 6A4CC: to=<box@app.example>, orig_to=<user@sent.example>, delay=0, dsn=2.0.0, status=sent (ok)",
        "smtp[3]: 6A4CC: to=<user@sent.example>, status=sent (a form without a delay)",
    ],
)
def test_a_delivery_to_the_recipient_whose_message_id_is_missing_is_neither_a_hit_nor_a_miss(
    tmp_path: Path, delivery: str
) -> None:
    """A log loses lines in a crash, when Postfix's own log daemon is stopped, and above the rate limit of a syslog."""
    exact = Sought((token("x"),), T0, "news@app.example", "user@sent.example")
    qmgr = "qmgr[2]: 6A4CC: from=<news@app.example>, size=352, nrcpt=1 (queue active)"
    with pytest.raises(
        LogUnusable, match=r"6A4CC is a mail to the same recipient, and the log .* does not have the line"
    ):
        search(lines(tmp_path, qmgr, delivery), exact)
    other = f"cleanup[8]: 6A4CC: message-id=<{token('y')}@app.example>"
    assert search(lines(tmp_path, other, qmgr, delivery), exact) is None
    assert search(lines(tmp_path, qmgr, delivery), replace(exact, recipient="jo@sent.example")) is None


@pytest.mark.parametrize(
    "line",
    [
        "smtp[3]: 6A4CC: to=<user@sent.example>, relay=none, delay=3602, dsn=2.0.0, status=sent (older than an hour)",
        "cleanup[8]: 6A4CC: milter-reject: DATA from a[192.0.2.1]: 5.7.1 no; from=<a@b.example> to=<user@sent.example>",
        "smtpd[7]: NOQUEUE: reject: RCPT from a[192.0.2.1]: 554 no; from=<a@b.example> to=<user@sent.example>",
    ],
)
def test_an_older_mail_to_the_recipient_and_one_that_was_refused_are_no_doubt(tmp_path: Path, line: str) -> None:
    exact = Sought((token("x"),), T0, "news@app.example", "user@sent.example")
    assert search(lines(tmp_path, f"smtpd[7]: {GOODBYE}", line), exact) is None


def test_a_mail_that_expired_in_the_queue_was_taken(tmp_path: Path) -> None:
    log = lines(
        tmp_path,
        f"cleanup[8]: 6A4CC: message-id=<{token('x')}@app.example>",
        "qmgr[2]: 6A4CC: from=<news@app.example>, status=expired, returned to sender",
    )
    assert search(log, sought("x", T0)) == Accepted(queue_id="6A4CC", delivery="expired")


def test_a_line_cut_in_half_is_read_when_it_is_whole(tmp_path: Path) -> None:
    whole = (FOLDER / NEW).read_bytes()
    # With the queue manager's line half written, and the session not yet over, nothing is proven.
    line = whole.index(b"4jWdNd6PlJz6Pbl: from=")
    log = written(tmp_path / "mail.log", whole[: line + 70], BEGUN[NEW])
    with pytest.raises(LogUnusable, match="does not show yet"):
        search(log, sought("bounced", BEGUN[NEW]))
    written(log, whole[: whole.index(b"\n", line) + 1], BEGUN[NEW])
    assert search(log, sought("bounced", BEGUN[NEW])) == Accepted(queue_id="4jWdNd6PlJz6Pbl", delivery="queued")


def test_bytes_that_are_no_text_harm_only_their_line(tmp_path: Path) -> None:
    noisy = (FOLDER / NEW).read_bytes().replace(b"\n", b"\n\xff\xfe\x00 noise \xc3\n")
    log = written(tmp_path / "mail.log", noisy, BEGUN[NEW])
    found = search(log, sought("sent-later", BEGUN[NEW]))
    assert found == Accepted(queue_id="4jWdNZ5bfwz6Pbh", delivery="sent")


@pytest.mark.parametrize("parts", [("mail.log.2", "mail.log.1"), ("mail.log.2.gz", "mail.log.1"),
                                   ("mail.log-20261120.gz", "mail.log-20261121"),
                                   ("mail.log.20261121-034400.gz", "mail.log.20261121-034401.gz")])  # fmt: skip
def test_a_story_that_goes_over_rotated_logs_is_read_as_one(tmp_path: Path, parts: tuple[str, str]) -> None:
    whole = (FOLDER / NEW).read_bytes()
    first, second = whole.index(b"\n", whole.index(b"4jWdNZ5bfwz6Pbh: client=")) + 1, whole.index(b"4jWdNd64Kjz6Pbk")
    second = whole.index(b"\n", second) + 1
    written(tmp_path / parts[0], whole[:first], BEGUN[NEW])
    written(tmp_path / parts[1], whole[first:second], BEGUN[NEW] + timedelta(seconds=5))
    log = written(tmp_path / "mail.log", whole[second:], BEGUN[NEW] + timedelta(seconds=30))
    assert search(log, sought("sent-later", BEGUN[NEW])) == Accepted(queue_id="4jWdNZ5bfwz6Pbh", delivery="sent")
    assert search(log, sought("never sent", BEGUN[NEW])) is None


def test_a_log_that_begins_after_the_first_attempt_gives_no_miss(tmp_path: Path) -> None:
    for name in (OLD, NEW):
        log = recorded(tmp_path, name)
        with pytest.raises(LogUnusable, match="after the first attempt"):
            search(log, sought("never sent", BEGUN[name] - timedelta(minutes=5)), ZONE)
        assert search(log, sought("never sent", BEGUN[name]), ZONE) is None


def test_a_log_with_a_missing_part_gives_no_miss(tmp_path: Path) -> None:
    log = recorded(tmp_path, NEW)
    long_ago = BEGUN[NEW] - timedelta(days=2)
    written(tmp_path / "mail.log.2.gz", b"2026-11-19T03:00:00+00:00 mx postfix/qmgr[1]: x\n", long_ago)
    with pytest.raises(LogUnusable, match="after the first attempt"):
        search(log, sought("never sent", BEGUN[NEW] - timedelta(hours=1)))
    written(tmp_path / "mail.log.1", b"2026-11-20T03:00:00+00:00 mx postfix/qmgr[1]: x\n", long_ago)
    assert search(log, sought("never sent", BEGUN[NEW] - timedelta(hours=1))) is None


WARNING = "warning: hostname mx.example does not resolve to address 192.0.2.1"
GOODBYE = "disconnect from localhost[127.0.0.1] ehlo=1 quit=1 commands=2"


def test_a_log_that_has_only_warnings_gives_no_miss(tmp_path: Path) -> None:
    with pytest.raises(LogUnusable, match=r"nothing of Postfix but warnings since the first .* set PERDURE_MAIL_LOG"):
        search(lines(tmp_path, f"smtpd[7]: {WARNING}"), sought("x", T0))
    assert search(lines(tmp_path, f"smtpd[7]: {GOODBYE}", f"smtpd[7]: {WARNING}"), sought("x", T0)) is None


def test_a_log_to_which_postfix_has_stopped_to_write_gives_no_miss(tmp_path: Path) -> None:
    log = lines(tmp_path, f"smtpd[7]: {GOODBYE}")
    assert search(log, sought("x", T0)) is None
    with pytest.raises(LogUnusable, match="warnings since the first attempt at 2026-11-21T05:00"):
        search(log, sought("x", T0 + timedelta(hours=2)))


def test_a_log_that_is_not_there_can_not_answer(tmp_path: Path) -> None:
    with pytest.raises(LogUnusable, match="PERDURE_MAIL_LOG"):
        search(tmp_path / "mail.log", sought("sent", BEGUN[NEW]))


def test_a_log_that_is_empty_can_not_answer(tmp_path: Path) -> None:
    with pytest.raises(LogUnusable, match="no line with a time stamp"):
        search(written(tmp_path / "mail.log", b"", BEGUN[NEW]), sought("sent", BEGUN[NEW]))


def test_a_part_that_can_not_be_read_can_not_answer(tmp_path: Path) -> None:
    log = recorded(tmp_path, NEW)
    half = gzip.compress((FOLDER / NEW).read_bytes())[:200]
    (tmp_path / "mail.log.1.gz").write_bytes(half)
    with pytest.raises(LogUnusable, match=r"mail\.log\.1\.gz can't be read"):
        search(log, sought("never sent", BEGUN[NEW]))


@pytest.mark.parametrize("part", ["mail.log.1", "mail.log-20261120", "mail.log.20261120-031409"])
@pytest.mark.parametrize("packed", [".zst", ".lz4", ".Z", ".gz.gpg"])
def test_a_part_that_is_packed_in_an_unknown_way_gives_no_miss(tmp_path: Path, part: str, packed: str) -> None:
    log = recorded(tmp_path, NEW)
    asked = BEGUN[NEW] - timedelta(hours=1)
    written(tmp_path / (part + packed), b"packed", BEGUN[NEW] - timedelta(minutes=30))
    older = part.replace(".1", ".2").replace("20261120", "20261119")
    written(tmp_path / older, b"2026-11-19T03:00:00+00:00 mx postfix/qmgr[1]: x\n", BEGUN[NEW] - timedelta(days=1))
    with pytest.raises(LogUnusable, match=f"{packed} can't be read: compress logs by gzip, bzip2 or xz"):
        search(log, sought("never sent", asked))
    written(tmp_path / part, b"2026-11-21T03:00:00+00:00 mx postfix/qmgr[1]: x\n", BEGUN[NEW] - timedelta(minutes=30))
    assert search(log, sought("never sent", asked)) is None  # the same unpacked


def test_a_part_that_is_just_being_packed_is_read_unpacked(tmp_path: Path) -> None:
    log = written(tmp_path / "mail.log", b"", BEGUN[NEW] + timedelta(minutes=1))
    written(tmp_path / "mail.log.1", (FOLDER / NEW).read_bytes(), BEGUN[NEW])
    (tmp_path / "mail.log.1.gz").write_bytes(b"\x1f\x8b half")
    assert search(log, sought("bounced", BEGUN[NEW])) == Accepted(queue_id="4jWdNd6PlJz6Pbl", delivery="bounced")


def test_parts_from_before_the_first_attempt_are_not_opened(tmp_path: Path) -> None:
    log = recorded(tmp_path, NEW)
    written(tmp_path / "mail.log.1", b"", BEGUN[NEW] - timedelta(days=1))
    broken = tmp_path / "mail.log.2.gz"
    broken.write_bytes(b"no gzip")
    os.utime(broken, (0, 0))
    assert search(log, sought("never sent", BEGUN[NEW] - timedelta(minutes=5))) is None


def test_a_log_that_is_rotated_while_it_is_read_gives_no_miss(tmp_path: Path) -> None:
    log = Log.since_moment(recorded(tmp_path, NEW), BEGUN[NEW])
    log.check_complete(ZONE)
    log.live.rename(tmp_path / "mail.log.1")
    written(log.live, b"", BEGUN[NEW] + timedelta(minutes=2))
    with pytest.raises(LogUnusable, match="rotated while it was read"):
        log.check_complete(ZONE)


def test_a_search_whose_time_is_over_stops(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(LogUnusable, match="given up"):
        search(recorded(tmp_path, NEW), sought("sent", BEGUN[NEW]), stop=stop)


def test_a_large_log_is_never_held_in_memory(tmp_path: Path) -> None:
    block = (FOLDER / NEW).read_bytes()
    with (tmp_path / "mail.log").open("wb") as log:
        for _ in range(40_000_000 // len(block)):
            log.write(block.replace(token("cut").encode(), b"0" * 40))
        log.write(block)
    tracemalloc.start()
    try:
        assert search(tmp_path / "mail.log", sought("cut", BEGUN[NEW])) is None
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "log_written", "stamp"),
    [
        ("Dec 31 23:59:58 mx x", "2027-01-01T00:05:00Z", "2026-12-31T23:59:58Z"),
        ("Jan  1 00:00:01 mx x", "2027-01-01T00:05:00Z", "2027-01-01T00:00:01Z"),
        ("Jan  1 00:00:01 mx x", "2026-12-31T23:59:00Z", "2027-01-01T00:00:01Z"),
        ("Feb 29 12:00:00 mx x", "2027-03-01T00:00:00Z", "2024-02-29T12:00:00Z"),
        ("2026-11-21T03:14:09.123456Z mx x", "2027-03-01T00:00:00Z", "2026-11-21T03:14:09.123456Z"),
        ("2026-11-21T04:14:09+01:00 mx x", "2027-03-01T00:00:00Z", "2026-11-21T03:14:09Z"),
        ("Foo 31 23:59:58 mx x", "2027-03-01T00:00:00Z", None),
        ("2026-13-21T04:14:09+01:00 mx x", "2027-03-01T00:00:00Z", None),
        ("-- cut --", "2027-03-01T00:00:00Z", None),
    ],
)
def test_a_stamp_is_read_with_the_year_that_fits(line: str, log_written: str, stamp: str | None) -> None:
    expected = None if stamp is None else datetime.fromisoformat(stamp)
    assert stamp_of(line.encode(), datetime.fromisoformat(log_written), ZONE) == expected


def test_a_stamp_without_a_zone_is_in_the_zone_of_the_settings_and_the_later_of_two() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    at = datetime(2026, 12, 1, tzinfo=UTC)
    assert stamp_of(b"Nov 21 04:14:09 mx x", at, berlin) == datetime(2026, 11, 21, 3, 14, 9, tzinfo=UTC)
    assert stamp_of(b"Oct 25 02:30:00 mx x", at, berlin) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


async def test_a_mail_that_the_server_accepted_is_found_by_the_same_look_up(tmp_path: Path) -> None:
    async with mail_server(tmp_path):
        sent = attempt()
        receipt = await send_mail(LETTER, sent)
        found = await find_in_mail_log(LETTER, question(sent))
        assert found == Accepted(queue_id=receipt.queue_id, delivery="sent")
        assert await find_in_mail_log(LETTER, question(attempt())) is None


async def test_a_doubt_is_resolved_by_the_log(tmp_path: Path) -> None:
    async with mail_server(tmp_path) as server:
        server.order(At.ACCEPTED, Fault(close=True))
        sent = attempt()
        with pytest.raises(InDoubt):
            await send_mail(LETTER, sent)
        found = await find_in_mail_log(LETTER, question(sent))
        assert found is not None
        assert (server.maildir / "new" / found.queue_id).exists()


@pytest.mark.parametrize("reply", ["451 4.3.0 not now", "close"])
async def test_a_mail_that_the_server_saw_and_did_not_accept_is_a_miss(tmp_path: Path, reply: str) -> None:
    async with mail_server(tmp_path) as server:
        server.order(At.END, Fault(close=True) if reply == "close" else Fault(reply))
        sent = attempt()
        with pytest.raises((NotDone, InDoubt)):
            await send_mail(LETTER, sent)
        await server.stop()  # so that the session's end is logged
        assert token_of(sent.key) in server.log.read_text()
        assert await find_in_mail_log(LETTER, question(sent)) is None


async def test_a_look_up_is_told_which_setting_is_wrong(tmp_path: Path) -> None:
    with settings(log=tmp_path / "nowhere" / "mail.log"), pytest.raises(LogUnusable, match="PERDURE_MAIL_LOG"):
        await find_in_mail_log(LETTER, question(attempt()))


async def test_the_log_of_this_machine_gives_no_miss_for_another_mail_server(tmp_path: Path) -> None:
    log, asked = recorded(tmp_path, NEW), LookupContext(attempt().key, BEGUN[NEW])
    with settings(host="mail.example.com"):
        with pytest.raises(LogUnusable, match=r"where mail\.example\.com logs: set PERDURE_MAIL_LOG"):
            await find_in_mail_log(LETTER, asked)
        [problem] = check_server_log()
        assert "mail.example.com logs" in problem.what
        assert "PERDURE_MAIL_LOG=FILE" in problem.mend
    with settings(host="mail.example.com", log=log):
        assert await find_in_mail_log(LETTER, asked) is None
        assert check_server_log() == check_mail_log() == []
    with settings(host="127.0.0.1"):
        assert check_server_log() == check_mail_log()


T0 = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def lines(folder: Path, *texts: str) -> Path:
    """A log of Postfix's with these lines, one a second from `T0` on."""
    log = "".join(
        f"{(T0 + timedelta(seconds=number)).isoformat()} mx.example postfix/{text}\n"
        for number, text in enumerate(texts)
    )
    return written(folder / "mail.log", log.encode(), T0 + timedelta(minutes=1))
