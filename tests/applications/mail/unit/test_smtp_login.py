"""Encryption and login: a password goes to a proven server only, and a wrong one stops mail without refusing any."""

from __future__ import annotations

from pathlib import Path

import pytest

from activities.mail.settings import mail_settings
from activities.mail.smtp import send_mail
from activities.mail.smtp_outcomes import OURS_PAUSE
from infra.certificates import Certificate
from infra.mail.server import count_by_message_id
from perdure import NotDone
from perdure.errors import InvalidSetting
from tests.applications.mail.fixtures import LETTER, attempt, mail_server, settings

LOGIN: dict[str, object] = {"username": "app", "password": "secret"}


async def test_mail_goes_over_starttls_with_login(tmp_path: Path, certificate: Certificate) -> None:
    client = {**LOGIN, "starttls": "required", "ca_file": certificate.cert}
    async with mail_server(tmp_path, client=client, tls=certificate.context(), users={"app": "secret"}) as server:
        receipt = await send_mail(LETTER, attempt())
        assert (server.maildir / "new" / receipt.queue_id).exists()
    assert " starttls=1 auth=1 mail=1 " in server.log.read_text()


async def test_a_wrong_password_is_not_done_and_waits_for_the_operator(
    tmp_path: Path, certificate: Certificate
) -> None:
    client = {**LOGIN, "password": "wrong", "starttls": "required", "ca_file": certificate.cert}
    async with mail_server(tmp_path, client=client, tls=certificate.context(), users={"app": "secret"}) as server:
        with pytest.raises(NotDone, match=r"AUTH: 535 5\.7\.8") as not_done:
            await send_mail(LETTER, attempt())
    assert not_done.value.retry_after == OURS_PAUSE
    assert "wrong" not in not_done.value.why
    assert not count_by_message_id(server.maildir)


async def test_a_missing_login_is_not_done(tmp_path: Path, certificate: Certificate) -> None:
    async with mail_server(tmp_path, tls=certificate.context(), users={"app": "secret"}):
        with pytest.raises(NotDone, match="MAIL: 530") as not_done:
            await send_mail(LETTER, attempt())
    assert not_done.value.retry_after == OURS_PAUSE


async def test_starttls_required_never_sends_in_the_clear(tmp_path: Path) -> None:
    async with mail_server(tmp_path, client={"starttls": "required"}) as server:
        with pytest.raises(NotDone, match="STARTTLS") as not_done:
            await send_mail(LETTER, attempt())
    assert not_done.value.retry_after == OURS_PAUSE
    assert not count_by_message_id(server.maildir)


async def test_a_certificate_that_nobody_vouches_for_is_not_done_where_one_is_required(
    tmp_path: Path, certificate: Certificate
) -> None:
    async with mail_server(tmp_path, client={"starttls": "required"}, tls=certificate.context()) as server:
        with pytest.raises(NotDone, match="certificate is not valid") as not_done:
            await send_mail(LETTER, attempt())
    assert not_done.value.retry_after == OURS_PAUSE
    assert not count_by_message_id(server.maildir)


@pytest.mark.parametrize(("starttls", "encrypted"), [("offered", True), ("never", False)])
async def test_starttls_is_used_as_the_setting_says(
    tmp_path: Path, certificate: Certificate, starttls: str, encrypted: bool
) -> None:
    async with mail_server(tmp_path, client={"starttls": starttls}, tls=certificate.context()) as server:
        await send_mail(LETTER, attempt())
    assert ("starttls=1" in server.log.read_text()) is encrypted


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"port": "smtp"}, "^PERDURE_MAIL_PORT: Input should be a valid integer"),
        ({"port": "0"}, "^PERDURE_MAIL_PORT: "),
        ({"starttls": "yes"}, "^PERDURE_MAIL_STARTTLS: Input should be 'never', 'offered' or 'required'$"),
        ({"username": "app"}, "^give PERDURE_MAIL_USERNAME and PERDURE_MAIL_PASSWORD, or neither$"),
        (
            {**LOGIN, "host": "mail.example"},
            "^a password needs a proven connection: set PERDURE_MAIL_STARTTLS=required$",
        ),
        ({"tls": "true", "starttls": "required"}, "choose one$"),
        ({"ca_file": "/nowhere.pem"}, "^PERDURE_MAIL_CA_FILE: can't be used as certificates"),
        ({"log_zone": "Europe/Nowhere"}, "^PERDURE_MAIL_LOG_ZONE: no such time zone"),
        ({"message_id_domain": "a b"}, "^PERDURE_MAIL_MESSAGE_ID_DOMAIN: "),
    ],
)
def test_a_wrong_setting_is_told_in_one_line_without_the_password(given: dict[str, object], why: str) -> None:
    with settings(**given), pytest.raises(InvalidSetting, match=why) as told:
        mail_settings()
    assert "\n" not in str(told.value)
    assert "secret" not in str(told.value)
