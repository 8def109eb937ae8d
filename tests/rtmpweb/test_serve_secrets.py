"""All that processes log at their most talkative, while every kind of secret is used: none is in it."""

import asyncio
import base64
import contextlib
import json
import re
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tests.background import Background, free_port
from tests.production.parts import MediaNode, Packager, Web
from tests.receivers import HttpReceiver, MailReceiver, http_receiver, mail_receiver
from tests.rtmp_client import Refused, RtmpClient
from tests.rtmpweb.test_serve import AUDIO, Browser, keep_sending
from tests.server_process import ServerProcess, running, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(240),  # A first start alone may take two minutes.
    pytest.mark.matrix,
]

USER = "chief"

MAKE = """
import json
from django.contrib.auth.models import User
from ingest.delivery.webhook import secret_of
from ingest.models import Delivery, Webhook
User.objects.create_superuser({user!r}, "", {password!r})
webhook = Webhook.objects.create(name="graphics", url={url!r})
alert = {{"title": "Nothing has arrived.", "subject": "live/cam", "level": "bad"}}
body = {{"kind": "alert.opened", "alert": alert, "rule": "Night", "url": ""}}
to = {{"channel": "email", "address": "a@example.org"}}
Delivery.objects.create(once="mail", number=1, kind="alert.opened", series="mail", body=body, **to)
print(json.dumps(secret_of(webhook)))
"""


@dataclass
class Secrets:
    """By what each is. Those that are chosen here are made anew for each run."""

    known: dict[str, str] = field(default_factory=dict)
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    """With tokens that are known."""

    def make(self, name: str) -> str:
        return self.add(name, secrets.token_urlsafe(30))

    def add(self, name: str, secret: str) -> str:
        assert len(secret) >= 12, f"{name} could be found by chance"
        self.known[name] = secret
        return secret


def configured(used: Secrets, receiver: HttpReceiver, mailbox: MailReceiver) -> dict[str, str]:
    return {
        "RTMPWEB_LOG_LEVEL": "DEBUG",
        "RTMPWEB_LOG_FORMAT": "json",
        "RTMPWEB_ACCESS_LOG": "yes",
        "RTMPWEB_HLS": "127.0.0.1:0",
        "RTMPWEB_WEBHOOK_PRIVATE": "yes",
        "RTMPWEB_RELAY_PRIVATE": "yes",
        "RTMPWEB_SECRET_KEY": used.make("the secret key"),
        "RTMPWEB_KEY_PEPPER": used.make("the pepper"),
        "RTMPWEB_AUTH_URL": f"{receiver.url}/{used.make('the path of the authorisation service')}",
        "RTMPWEB_AUTH_SECRET": used.make("its secret"),
        "RTMPWEB_EMAIL_URL": f"smtp://mailer:{used.make('the password of the mail server')}@127.0.0.1:{mailbox.port}",
    }


async def publish_and_play(server: ServerProcess, used: Secrets) -> None:
    """With what is right and what is not, in each place where a client may put it."""
    port = int(server.rtmp.rpartition(":")[2])
    key, token, wrong = used.known["a stream key"], used.known["a play token"], used.make("a wrong key")

    async with RtmpClient(port=port, timeout_s=20) as encoder:
        await encoder.connect("live")
        stream_id = await encoder.publish(key)
        for at_ms, payload in enumerate(AUDIO):
            await encoder.send_audio(stream_id, at_ms, payload)
        await encoder.send_metadata(stream_id, {"title": key})
        sending = asyncio.create_task(keep_sending(encoder, stream_id))
        await asyncio.to_thread(watch, server, used)
        sending.cancel()
        await asyncio.wait([sending])
        async with RtmpClient(port=port, timeout_s=20) as player:
            await player.connect("live")
            await player.play(f"cam?token={token}")
        for app, name in (("live", f"cam?token={wrong}"), (f"live?token={wrong}", "cam"), (f"live/{wrong}", wrong)):
            with contextlib.suppress(Refused, ConnectionError, TimeoutError):
                async with RtmpClient(port=port, timeout_s=20) as player:
                    await player.connect(app, tc_url=f"rtmp://user:{wrong}@127.0.0.1/{app}")
                    await player.play(name)
    for name in (wrong, f"cam?key={key}", f"cam?key={wrong}"):
        with contextlib.suppress(Refused, ConnectionError, TimeoutError):
            async with RtmpClient(port=port, timeout_s=20) as encoder:
                await encoder.connect("live")
                await encoder.publish(name)


def watch(server: ServerProcess, used: Secrets) -> None:
    """By HLS and the page for it, with the link that is right and with others."""
    link, token = used.links["stream"], used.known["a play token"]
    headers = {"Referer": link["watch_url"]}
    with httpx.Client(headers=headers, timeout=30) as viewer:
        index = wait_for(lambda: playlist(viewer, link["hls_url"]), timeout_s=30, what="it can be watched")
        media = urljoin(link["hls_url"], index[-1])
        files = wait_for(
            lambda: [each for each in playlist(viewer, media) if ".m4s" in each], timeout_s=30, what="media"
        )
        assert viewer.get(urljoin(media, files[0])).is_success
        assert viewer.post(link["hls_url"].replace("index.m3u8", "beacon"), json={"stalls": token}).is_success
        assert viewer.get(link["watch_url"]).is_success
        assert viewer.get(link["watch_url"] + "&embed=1").is_success
        wrong = token[:-12] + secrets.token_urlsafe(9)
        used.add("a wrong link's end", wrong[-12:])
        for url, statuses in (
            (link["hls_url"].replace(token, wrong), {403}),
            (media.replace(token, wrong), {403}),
            (link["watch_url"].replace(token, wrong), {403, 404}),
            (link["hls_url"].replace("/live/", "//live/"), {404}),
            (link["hls_url"].replace("cam", "cam%0a%00"), {403, 404}),
            (link["hls_url"] + f"?token={token}", {200}),
            (media + f"&_HLS_msn={token}", {400}),
        ):
            assert viewer.get(url).status_code in statuses, url


def playlist(viewer: httpx.Client, url: str) -> list[str]:
    """What it leads to; nothing where there is none yet."""
    answer = viewer.get(url)
    assert answer.status_code in (200, 404, 503), answer.text
    return [line for line in answer.text.splitlines() if line and line[0] != "#"] if answer.is_success else []


def play_recording(server: ServerProcess, used: Secrets) -> None:
    """By a link to it, to its stream, and by neither."""

    def recorded() -> list[dict[str, Any]]:
        return [each for each in server.items("/api/v1/recordings") if each["state"] == "complete"]

    row = wait_for(recorded, timeout_s=30, what="the stream is recorded")[0]
    status, link = server.request(f"/api/v1/recordings/{row['id']}/token", method="POST")
    assert status == 201, link
    own, token = used.add("a recording's token", link["token"]), used.known["a play token"]
    wrong = used.add("a wrong recording's token", own[:-12] + secrets.token_urlsafe(9))
    for name in ("flv_url", "mp4_url", "watch_url"):
        assert httpx.get(link[name], timeout=20).is_success, name
        assert httpx.get(link[name].replace(own, wrong), timeout=20).status_code >= 400, name
    for name in ("flv_url", "mp4_url"):
        assert httpx.get(f"{row[name]}?token={token}", timeout=20).is_success, name


def push_and_pull(server: ServerProcess, used: Secrets) -> None:
    """To and from where nobody answers."""
    nobody = f"127.0.0.1:{free_port()}"
    target = {"label": "Elsewhere", "url": f"rtmp://{nobody}/app", "key": used.make("a push target's key")}
    password, query = used.make("a pull source's password"), used.make("a pull source's query")
    source = {"url": f"rtmp://bob:{password}@{nobody}/app/cam?token={query}"}
    headers = {"Authorization": f"Bearer {server.token}"}
    for method, path, body in (("POST", "cam/pushes", target), ("PUT", "pulled/pull", source)):
        url = f"{server.http}/api/v1/streams/live/{path}"
        assert httpx.request(method, url, json=body, headers=headers, timeout=20).is_success
        assert httpx.get(url, headers=headers, timeout=20).is_success


def log_in(server: ServerProcess, used: Secrets) -> None:
    """With a wrong password, then with the right one."""
    with Browser(server) as browser:
        for password in (used.make("a wrong password"), used.known["a password"]):
            browser.log_in(USER, password)
        used.add("a session's cookie", browser.cookies["sessionid"])
        used.add("a form's token", browser.cookies["csrftoken"])
        for path in ("/", "/keys/", "/system/", "/nothing/", "/admin/"):
            browser.get(path)


def use_http(server: ServerProcess, used: Secrets) -> None:
    token, password = used.known["an API token"], used.known["a password"]
    basic = used.add("a password as browsers send it", base64.b64encode(f"{USER}:{password}".encode()).decode())
    for headers, path, status in (
        ({"Authorization": f"Bearer {token}"}, "/api/v1/streams", 200),
        ({"Authorization": f"Bearer {used.make('a wrong API token')}"}, "/api/v1/streams", 401),
        ({"Authorization": f"Basic {basic}"}, "/api/v1/streams", 401),
        ({"Host": "elsewhere.example.org"}, f"/?token={token}", 400),
        ({}, f"/nothing?token={token}", 404),
    ):
        assert httpx.get(server.http + path, headers=headers, timeout=20).status_code == status, path
    headers = {"Cookie": f"csrftoken={used.make('a wrong token of a form')}"}
    assert httpx.post(f"{server.http}/login/", headers=headers, data={"a": "b"}, timeout=20).status_code == 403


def test_no_secret_is_logged(tmp_path: Path) -> None:
    used = Secrets()
    with (
        http_receiver() as receiver,
        mail_receiver() as mailbox,
        running(tmp_path / "var", **configured(used, receiver, mailbox)) as server,
    ):
        for name, label in (("the first password", "Password"), ("the first stream key", "Stream Key")):
            used.add(name, re.findall(rf"{label}: (\S+)", server.first_start)[0])
        url = f"{receiver.url}/{used.make('the path of a webhook')}?x={used.make('the query of a webhook')}"
        make = MAKE.format(user=USER, password=used.make("a password"), url=url)
        used.add("the secret of a webhook", json.loads(server.manage("shell", "--no-imports", "-c", make).split()[-1]))
        server.manage("application", "set", "live", "--callback", "all", "--play", "token", "--record", "all")
        used.add("a stream key", server.create_keys(["live/cam", "live/pulled"])["live/cam"]["key"])
        used.add("an API token", server.token)
        status, link = server.request("/api/v1/streams/live/cam/token", method="POST")
        assert status == 201
        used.add("a play token", link["token"])
        used.links["stream"] = link

        push_and_pull(server, used)
        asyncio.run(publish_and_play(server, used))
        play_recording(server, used)
        log_in(server, used)
        use_http(server, used)
        wrong = link["flv_url"].replace(used.known["a play token"], used.make("a wrong play token"))
        assert httpx.get(wrong, timeout=20).status_code >= 400

        def all_told() -> bool:
            paths = "".join(got.path for got in receiver.got)
            mail = server.items("/api/v1/deliveries")
            return (
                used.known["the path of the authorisation service"] in paths
                and used.known["the query of a webhook"] in paths
                and any(each["to"] == "a@example.org" and each["error"] for each in mail)
            )

        wait_for(all_told, timeout_s=60, what="a webhook was told, the service was asked, and mail was tried")
    loggers = {json.loads(line)["logger"] for line in server.lines if line.startswith("{")}
    assert {"rtmpweb.access", "ingest.consumers.journal"} <= loggers
    assert "ingest.packager.packager" in loggers
    assert any(name.startswith("celery.") for name in loggers), "the workers were talkative too"
    told = {name: [line for line in server.lines if secret in line] for name, secret in used.known.items()}
    assert {name: lines for name, lines in told.items() if lines} == {}


PASSWORDS = {
    "DATABASE_URL": ("a-password-of-postgresql", "postgresql://rtmpweb:{}@127.0.0.1:1/none"),
    "REDIS_URL": ("a-password-of-redis", "redis://:{}@127.0.0.1:1/0"),
    "SPARK_REMOTE": ("a-token-of-spark-connect", "sc://127.0.0.1:1/;token={}"),
}

CELERY = [sys.executable, "-m", "celery", "-A", "rtmpweb"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[dict[str, Background]]:
    """Each of the production form, by what it says of a store that is away."""
    environment = {name: form.format(password) for name, (password, form) in PASSWORDS.items()}
    environment |= {
        "RTMPWEB_DATA_DIR": str(tmp_path / "data"),
        "RTMPWEB_LOG_LEVEL": "DEBUG",
        "RTMPWEB_MEDIA": f"127.0.0.1:{free_port()}",
    }
    started: dict[str, Background] = {
        r"The database does not answer": Web(tmp_path, environment),
        r"(WARNING|ERROR) ingest\.": MediaNode("node-a", tmp_path, environment),
        r"WARNING ingest\.": Packager(tmp_path, environment),
    }
    for said, name, *options in (
        (r"Cannot connect to redis", "worker", "-Q", "default", "-c", "1"),
        (r"The database does not answer: ", "beat", "--pidfile="),
    ):
        command = [*CELERY, name, *options]
        started[said] = Background(name, command, folder=tmp_path, ready="", environment=environment)
    for process in started.values():
        process.launch()
    yield started
    for process in started.values():
        process.kill()


def test_database_and_redis_passwords_are_not_logged(processes: dict[str, Background]) -> None:
    for said, process in processes.items():
        if isinstance(process, Web):
            process.start_timeout_s = 120
            process.wait_ready()
            httpx.get(process.url + "/login/", timeout=20)
        wait_for(lambda: re.search(said, process.log), timeout_s=60, what=f"{process.name} says {said}")  # noqa: B023
    for process in processes.values():
        assert [name for name, (password, _) in PASSWORDS.items() if password in process.log] == [], process.name
