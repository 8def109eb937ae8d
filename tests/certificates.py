"""Certificates for tests: self-signed, for localhost and 127.0.0.1, and for other names if a test says so."""

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    chain: Path
    key: Path
    serial: int

    def client(self) -> ssl.SSLContext:
        """Of a client that trusts this certificate, and no other."""
        return ssl.create_default_context(cafile=self.chain)

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context


def make_pair(folder: Path, *, days: float = 365, password: bytes | None = None, names: Sequence[str] = ()) -> Pair:
    """A new pair in the folder, in the place of a former one; `days` until it ends. `names`: of further hosts."""
    hosts = [x509.DNSName(host) for host in ("localhost", *names)]
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=400))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([*hosts, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pair = Pair(folder / "chain.pem", folder / "key.pem", made.serial_number)
    pair.chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return pair
