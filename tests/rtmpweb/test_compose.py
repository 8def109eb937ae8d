"""docker-compose.yml and the Dockerfile: read by Compose itself, and held to what the project has."""

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

from tests.rtmpweb.processes import PROGRAMS, run
from tests.tools import require_tool

ROOT = Path(settings.BASE_DIR)
FILE = ROOT / "docker-compose.yml"
DOCKERFILE = (ROOT / "Dockerfile").read_text()

OWN = "rtmpweb"
"""The image that the Dockerfile makes."""

SECRETS = ("POSTGRES_PASSWORD", "RTMPWEB_SECRET_KEY", "RTMPWEB_KEY_PEPPER")

PROFILES = ("node-2", "spark", "connect")

ONCE = {"migrate"}
"""Services that do their work and end: neither restarted nor asked for their health."""


Services = dict[str, dict[str, Any]]

COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
"""As it is written."""
SERVICES: Services = COMPOSE["services"]
OWN_SERVICES = {name: service for name, service in SERVICES.items() if service["image"] == OWN}

GIVEN = {name: secrets.token_urlsafe(48) for name in SECRETS} | {"RTMPWEB_TRUSTED_ORIGINS": "https://live.example.org"}
"""An operator's .env."""


def docker_compose(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(require_tool("docker-compose"), "-f", FILE, *arguments, only={"HOME": "/nonexistent", **environment})


def config(environment: dict[str, str]) -> Services:
    """The services as Compose understands them, with this .env."""
    done = docker_compose(environment, *(f"--profile={name}" for name in PROFILES), "config")
    assert done.returncode == 0, done.stderr
    services: Services = yaml.safe_load(done.stdout)["services"]
    return services


# --- The form ---


def test_compose_reads_the_file() -> None:
    assert config(GIVEN).keys() == SERVICES.keys()


@pytest.mark.parametrize("missing", SECRETS)
def test_compose_asks_for_each_secret(missing: str) -> None:
    done = docker_compose({name: value for name, value in GIVEN.items() if name != missing}, "config")
    assert done.returncode != 0
    assert missing in done.stderr


def test_the_file_has_every_process() -> None:
    always = {name for name, service in SERVICES.items() if not service.get("profiles")}
    assert always == {"migrate", "web", "node", "hls", "worker", "analytics", "beat", "postgres", "redis"}
    further = {
        profile: {name for name, service in SERVICES.items() if profile in service.get("profiles", ())}
        for profile in PROFILES
    }
    cluster = {"spark-master", "spark-worker"}
    assert further == {"node-2": {"node-2"}, "spark": cluster, "connect": cluster | {"spark-connect"}}
    assert always.union(*further.values()) == SERVICES.keys()
    assert SERVICES["spark-worker"]["scale"] == 2


def test_spark_runs_where_the_analytics_worker_does_unless_told_otherwise() -> None:
    environment = config(GIVEN)["analytics"]["environment"]
    assert (environment["SPARK_MASTER"], environment["SPARK_REMOTE"]) == ("", "")


def test_each_service_restarts_and_is_asked_for_its_health() -> None:
    for name, service in SERVICES.items():
        assert service["restart"] == ("no" if name in ONCE else "unless-stopped"), name
        assert ("healthcheck" in service) == (name not in ONCE), name


def test_compose_services_run_unprivileged() -> None:
    for name, service in SERVICES.items():
        assert service["user"] not in ("", "root", "0", "0:0"), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    for name, service in OWN_SERVICES.items():
        assert service["user"] == "10001:10001", name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name


def test_compose_dependencies_have_a_health_check_or_run_once() -> None:
    for name, service in SERVICES.items():
        for other, wanted in service.get("depends_on", {}).items():
            assert other in SERVICES, f"{name} -> {other}"
            profiles = SERVICES[other].get("profiles", ())
            assert not profiles or set(service.get("profiles", ())) & set(profiles), (
                f"{name} -> {other}: starts with it"
            )
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} -> {other}"
            else:
                assert other in ONCE, f"{name} -> {other}"


def test_volumes_are_declared_and_used() -> None:
    mounted = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert mounted == COMPOSE["volumes"].keys()


def test_the_file_holds_no_secret() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|PEPPER", variable):
                assert str(value).startswith("${"), f"{name}: {variable}"
                is_optional = value == f"${{{variable}:-}}"
                assert ":?" in value or is_optional, f"{name}: {variable} must be asked for, or be none"
            assert not re.search(r"://\w+:\w+@", str(value)), f"{name}: {variable} has a password"


@pytest.mark.parametrize("drain_s", [20, 300])
def test_a_node_has_the_time_to_drain(drain_s: int) -> None:
    environment = GIVEN if drain_s == 20 else {**GIVEN, "RTMPWEB_DRAIN_S": str(drain_s)}
    nodes = {name: service for name, service in config(environment).items() if "runrtmp" in service.get("command", [])}
    assert len({service["environment"]["RTMPWEB_NODE"] for service in nodes.values()}) == len(nodes) == 2
    for name, service in nodes.items():
        assert int(service["environment"]["RTMPWEB_DRAIN_S"]) == drain_s, name
        grace_s = sum(
            int(number) * {"m": 60, "s": 1}[unit]
            for number, unit in re.findall(r"(\d+)([ms])", service["stop_grace_period"])
        )
        assert grace_s >= drain_s + 20, name


def test_no_two_services_take_a_port_of_the_host() -> None:
    taken = [port.partition(":")[0] for service in SERVICES.values() for port in service.get("ports", [])]
    assert sorted(taken) == ["1935", "1937", "8000", "8001", "8002", "8003"], "and 1936 is RTMPS in the documentation"


def test_spark_may_run_the_native_code_that_it_unpacks() -> None:
    for name, service in OWN_SERVICES.items():
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

ONE_SERVICE = {"RTMPWEB_ACCESS_LOG": "web"} | dict.fromkeys(
    ("RTMPWEB_DRAIN_S", "RTMPWEB_NODE_URL", "RTMPWEB_WORKERS"), "node"
)
"""Settings that only one kind of process reads."""


def test_every_variable_that_is_passed_is_a_setting() -> None:
    for name, service in OWN_SERVICES.items():
        assert set(service["environment"]) <= KNOWN, name


def test_every_other_setting_comes_from_env_file() -> None:
    names = sorted(KNOWN - set().union(*NOT_FROM_ENV.values()))
    environment = GIVEN | {name: str(number) for number, name in enumerate(names, 100)}
    services = config(environment)
    for name in names:
        for service in OWN_SERVICES if name not in ONE_SERVICE else [ONE_SERVICE[name]]:
            assert services[service]["environment"][name] == environment[name], f"{service}: {name}"


def programs(service: dict[str, Any]) -> Iterator[list[str]]:
    """The service's command and its health check's."""
    yield [str(word) for word in service["command"]]
    if "healthcheck" in service:
        kind, *words = service["healthcheck"]["test"]
        yield shlex.split(words[0]) if kind == "CMD-SHELL" else words


def test_every_program_of_the_compose_file_exists() -> None:
    for name, service in OWN_SERVICES.items():
        for program, *arguments in programs(service):
            assert (PROGRAMS / program).exists(), f"{name}: {program}"
            if arguments[0] == "manage.py":
                assert arguments[1] in get_commands(), f"{name}: {arguments[1]}"
            if arguments[0] == "-c":
                compile(arguments[1], name, "exec")


def test_the_workers_take_from_the_queues_that_tasks_go_to() -> None:
    routed = {settings.CELERY_TASK_DEFAULT_QUEUE, *(route["queue"] for route in settings.CELERY_TASK_ROUTES.values())}
    workers = [service for service in OWN_SERVICES.values() if "worker" in service["command"]]
    assert {service["command"][service["command"].index("-Q") + 1] for service in workers} == routed
    for service in workers:
        node = service["command"][service["command"].index("-n") + 1].replace("%h", "$$HOSTNAME")
        assert service["healthcheck"]["test"][-1].endswith(f" -d {node}"), "it is asked, not any worker"


def test_spark_classes_are_in_the_wheel() -> None:
    import pyspark

    jars = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar")}
    for service in OWN_SERVICES.values():
        for word in service["command"]:
            if str(word).startswith("org.apache.spark.deploy."):
                assert any(name.startswith("spark-core_") for name in jars)
            if str(word).startswith("org.apache.spark.sql.connect."):
                assert any(name.startswith("spark-connect_") for name in jars)


@pytest.mark.parametrize(
    ("name", "spark"),
    [
        ("web", {}),
        pytest.param("node", {}, marks=pytest.mark.matrix),
        pytest.param("analytics", {}, marks=pytest.mark.matrix),
        pytest.param("analytics", {"SPARK_MASTER": "spark://spark-master:7077"}, marks=pytest.mark.matrix),
        pytest.param("analytics", {"SPARK_REMOTE": "sc://spark-connect:15002"}, marks=pytest.mark.matrix),
    ],
)
def test_checks_of_the_deployment_find_nothing(name: str, spark: dict[str, str], tmp_path: Path) -> None:
    """`manage.py check --deploy`, with the environment that Compose gives, and the Dockerfile's; folders of our own."""
    image = dict(re.findall(r"(RTMPWEB_\w+)=(\S+)", DOCKERFILE))
    service = config(GIVEN | spark | {"RTMPWEB_TRUSTED_PROXIES": "172.18.0.1"})[name]
    folders = {"RTMPWEB_DATA_DIR": str(tmp_path / "data"), "RTMPWEB_LAKE": str(tmp_path / "lake")}
    folders["RTMPWEB_RECORDINGS"] = str(tmp_path / "recordings")
    assert folders.keys() <= image.keys()
    check = (sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING")
    done = run(*check, only={**image, **service["environment"], **folders})
    assert done.returncode == 0, f"{name}: {done.stderr}"


# --- The Dockerfile ---


def test_the_image_is_made_of_what_is_there() -> None:
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for path in source.split():
            assert (ROOT / path).exists(), path
    (lock,) = re.findall(r"pip install --require-hashes -r (\S+)", DOCKERFILE)
    locked = (ROOT / lock).read_text()
    assert "grpcio==" in locked, "the client of Spark Connect, which the compose file offers"
    assert "celery==" in locked


def test_the_image_has_java_and_the_user_of_the_compose_file() -> None:
    assert re.search(r"openjdk-(1[7-9]|2\d)-jre-headless", DOCKERFILE)
    assert re.search(r"useradd --uid 10001 ", DOCKERFILE)
    assert DOCKERFILE.index("USER rtmpweb") < DOCKERFILE.index("ENTRYPOINT")
    for service in OWN_SERVICES.values():
        for volume in service["volumes"]:
            assert volume.partition(":")[2] in DOCKERFILE
