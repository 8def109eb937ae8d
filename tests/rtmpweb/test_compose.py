"""docker-compose.yml and the Dockerfile: read by Compose itself, and held to what the project has."""

import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands

from tests.tools import require_tool

ROOT = Path(settings.BASE_DIR)
PROGRAMS = Path(sys.executable).parent
FILE = ROOT / "docker-compose.yml"
DOCKERFILE = (ROOT / "Dockerfile").read_text()

OWN = "rtmpweb"
"""The image that the Dockerfile makes."""

SECRETS = ("POSTGRES_PASSWORD", "RTMPWEB_SECRET_KEY", "RTMPWEB_KEY_PEPPER")

PROFILES = ("node-2", "spark", "connect")

ONCE = {"migrate"}
"""Services that do their work and end: neither restarted nor asked for their health."""


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """As it is written."""
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return loaded


@pytest.fixture
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


@pytest.fixture
def own(services: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The services of the project's own image."""
    return {name: service for name, service in services.items() if service["image"] == OWN}


@pytest.fixture(scope="module")
def given() -> dict[str, str]:
    """An operator's .env."""
    return {name: secrets.token_urlsafe(48) for name in SECRETS} | {
        "RTMPWEB_TRUSTED_ORIGINS": "https://live.example.org"
    }


def docker_compose(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [require_tool("docker-compose"), "-f", FILE, *arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def config(environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The services as Compose understands them, with this .env."""
    done = docker_compose(environment, *(f"--profile={name}" for name in PROFILES), "config")
    assert done.returncode == 0, done.stderr
    services: dict[str, dict[str, Any]] = yaml.safe_load(done.stdout)["services"]
    return services


@pytest.fixture(scope="module")
def resolved(given: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The services, with the operator's .env."""
    return config(given)


# --- The form ---


def test_compose_reads_the_file(resolved: dict[str, dict[str, Any]], services: dict[str, Any]) -> None:
    assert resolved.keys() == services.keys()


@pytest.mark.parametrize("missing", SECRETS)
def test_compose_asks_for_each_secret(given: dict[str, str], missing: str) -> None:
    done = docker_compose({name: value for name, value in given.items() if name != missing}, "config")
    assert done.returncode != 0
    assert missing in done.stderr


def test_the_file_has_every_process(services: dict[str, Any]) -> None:
    always = {name for name, service in services.items() if not service.get("profiles")}
    assert always == {"migrate", "web", "node", "worker", "analytics", "beat", "postgres", "redis"}
    further = {
        profile: {name for name, service in services.items() if profile in service.get("profiles", ())}
        for profile in PROFILES
    }
    cluster = {"spark-master", "spark-worker"}
    assert further == {"node-2": {"node-2"}, "spark": cluster, "connect": cluster | {"spark-connect"}}
    assert always.union(*further.values()) == services.keys()
    assert services["spark-worker"]["scale"] == 2


def test_what_a_service_waits_for_starts_with_it(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for other in service.get("depends_on", {}):
            needed = services[other].get("profiles")
            assert not needed or set(service.get("profiles", ())) & set(needed), f"{name} -> {other}"


def test_spark_runs_where_the_analytics_worker_does_unless_told_otherwise(given: dict[str, str]) -> None:
    environment = config(given)["analytics"]["environment"]
    assert (environment["SPARK_MASTER"], environment["SPARK_REMOTE"]) == ("", "")


def test_each_service_restarts_and_is_asked_for_its_health(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["restart"] == ("no" if name in ONCE else "unless-stopped"), name
        assert ("healthcheck" in service) == (name not in ONCE), name


def test_no_service_has_rights(services: dict[str, dict[str, Any]], own: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["user"] not in ("", "root", "0", "0:0"), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    for name, service in own.items():
        assert service["user"] == "10001:10001", name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name


def test_services_wait_for_services_that_tell_of_themselves(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for other, wanted in service.get("depends_on", {}).items():
            assert other in services, f"{name} -> {other}"
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in services[other], f"{name} -> {other}"
            else:
                assert other in ONCE, f"{name} -> {other}"


def test_volumes_are_declared_and_used(compose: dict[str, Any], services: dict[str, dict[str, Any]]) -> None:
    mounted = {volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert mounted == compose["volumes"].keys()


def test_the_file_holds_no_secret(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|PEPPER", variable):
                assert str(value).startswith("${"), f"{name}: {variable}"
                is_optional = value == f"${{{variable}:-}}"
                assert ":?" in value or is_optional, f"{name}: {variable} must be asked for, or be none"
            assert not re.search(r"://\w+:\w+@", str(value)), f"{name}: {variable} has a password"


@pytest.mark.parametrize("drain_s", [20, 300])
def test_a_node_has_the_time_to_drain(given: dict[str, str], drain_s: int) -> None:
    environment = given if drain_s == 20 else {**given, "RTMPWEB_DRAIN_S": str(drain_s)}
    nodes = {name: service for name, service in config(environment).items() if "runrtmp" in service.get("command", [])}
    assert len({service["environment"]["RTMPWEB_NODE"] for service in nodes.values()}) == len(nodes) == 2
    for name, service in nodes.items():
        assert int(service["environment"]["RTMPWEB_DRAIN_S"]) == drain_s, name
        grace_s = sum(
            int(number) * {"m": 60, "s": 1}[unit]
            for number, unit in re.findall(r"(\d+)([ms])", service["stop_grace_period"])
        )
        assert grace_s >= drain_s + 20, name


def test_no_two_services_take_a_port_of_the_host(services: dict[str, dict[str, Any]]) -> None:
    taken = [port.partition(":")[0] for service in services.values() for port in service.get("ports", [])]
    assert sorted(taken) == ["1935", "1937", "8000", "8001", "8002"], "and 1936 is RTMPS in the documentation"


def test_spark_may_run_the_native_code_that_it_unpacks(own: dict[str, dict[str, Any]]) -> None:
    for name, service in own.items():
        computes = any(str(word).endswith((".worker.Worker", ".SparkConnectServer")) for word in service["command"])
        (folder,) = service["tmpfs"]
        assert folder.endswith(":exec") == computes, name  # Docker's default is noexec.


# --- What the project has ---


KNOWN = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', (ROOT / "rtmpweb" / "settings.py").read_text()))

NOT_FROM_ENV = {
    "the file's own": {"DATABASE_URL", "REDIS_URL", "RTMPWEB_DATA_DIR", "RTMPWEB_NODE", "RTMPWEB_RTMP"}
    | {"RTMPWEB_LAKE", "RTMPWEB_RECORDINGS"},
    "the image's": {"RTMPWEB_HTTP"},
    "of SQLite": {"RTMPWEB_KEEP_COPIES"},
    "not for production": {"RTMPWEB_DEBUG"},
}
"""Settings that an operator's .env does not change, and why."""

ONE_SERVICE = {"RTMPWEB_ACCESS_LOG": "web", "RTMPWEB_DRAIN_S": "node", "RTMPWEB_NODE_URL": "node"}
"""Settings that only one kind of process reads."""


def test_every_variable_that_is_passed_is_a_setting(own: dict[str, dict[str, Any]]) -> None:
    for name, service in own.items():
        assert set(service["environment"]) <= KNOWN, name


def test_every_other_setting_comes_from_env_file(given: dict[str, str], own: dict[str, dict[str, Any]]) -> None:
    names = sorted(KNOWN - set().union(*NOT_FROM_ENV.values()))
    environment = given | {name: str(number) for number, name in enumerate(names, 100)}
    services = config(environment)
    for name in names:
        for service in own if name not in ONE_SERVICE else [ONE_SERVICE[name]]:
            assert services[service]["environment"][name] == environment[name], f"{service}: {name}"


def programs(service: dict[str, Any]) -> Iterator[list[str]]:
    """The service's command and its health check's."""
    yield [str(word) for word in service["command"]]
    if "healthcheck" in service:
        kind, *words = service["healthcheck"]["test"]
        yield shlex.split(words[0]) if kind == "CMD-SHELL" else words


def test_every_program_is_there(own: dict[str, dict[str, Any]]) -> None:
    for name, service in own.items():
        for program, *arguments in programs(service):
            assert (PROGRAMS / program).exists(), f"{name}: {program}"
            if arguments[0] == "manage.py":
                assert arguments[1] in get_commands(), f"{name}: {arguments[1]}"
            if arguments[0] == "-c":
                compile(arguments[1], name, "exec")


def test_the_workers_take_from_the_queues_that_tasks_go_to(own: dict[str, dict[str, Any]]) -> None:
    routed = {settings.CELERY_TASK_DEFAULT_QUEUE, *(route["queue"] for route in settings.CELERY_TASK_ROUTES.values())}
    workers = [service for service in own.values() if "worker" in service["command"]]
    assert {service["command"][service["command"].index("-Q") + 1] for service in workers} == routed
    for service in workers:
        node = service["command"][service["command"].index("-n") + 1].replace("%h", "$$HOSTNAME")
        assert service["healthcheck"]["test"][-1].endswith(f" -d {node}"), "it is asked, not any worker"


def test_spark_classes_are_in_the_wheel(own: dict[str, dict[str, Any]]) -> None:
    import pyspark

    jars = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar")}
    for service in own.values():
        for word in service["command"]:
            if str(word).startswith("org.apache.spark.deploy."):
                assert any(name.startswith("spark-core_") for name in jars)
            if str(word).startswith("org.apache.spark.sql.connect."):
                assert any(name.startswith("spark-connect_") for name in jars)


@pytest.mark.parametrize(
    ("name", "spark"),
    [
        ("web", {}),
        ("node", {}),
        ("analytics", {}),
        ("analytics", {"SPARK_MASTER": "spark://spark-master:7077"}),
        ("analytics", {"SPARK_REMOTE": "sc://spark-connect:15002"}),
    ],
)
def test_checks_of_the_deployment_find_nothing(
    given: dict[str, str], name: str, spark: dict[str, str], tmp_path: Path
) -> None:
    """`manage.py check --deploy`, with the environment that Compose gives, and the Dockerfile's; folders of our own."""
    image = dict(re.findall(r"(RTMPWEB_\w+)=(\S+)", DOCKERFILE))
    service = config(given | spark | {"RTMPWEB_TRUSTED_PROXIES": "172.18.0.1"})[name]
    folders = {"RTMPWEB_DATA_DIR": str(tmp_path / "data"), "RTMPWEB_LAKE": str(tmp_path / "lake")}
    folders["RTMPWEB_RECORDINGS"] = str(tmp_path / "recordings")
    assert folders.keys() <= image.keys()
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **image, **service["environment"], **folders},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{name}: {done.stderr}"


# --- The Dockerfile ---


def test_the_image_is_made_of_what_is_there(own: dict[str, dict[str, Any]]) -> None:
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for path in source.split():
            assert (ROOT / path).exists(), path
    (lock,) = re.findall(r"pip install --require-hashes -r (\S+)", DOCKERFILE)
    locked = (ROOT / lock).read_text()
    assert "grpcio==" in locked, "the client of Spark Connect, which the compose file offers"
    assert "celery==" in locked


def test_the_image_has_java_and_the_user_of_the_compose_file(own: dict[str, dict[str, Any]]) -> None:
    assert re.search(r"openjdk-(1[7-9]|2\d)-jre-headless", DOCKERFILE)
    assert re.search(r"useradd --uid 10001 ", DOCKERFILE)
    assert DOCKERFILE.index("USER rtmpweb") < DOCKERFILE.index("ENTRYPOINT")
    for service in own.values():
        for volume in service["volumes"]:
            assert volume.partition(":")[2] in DOCKERFILE
