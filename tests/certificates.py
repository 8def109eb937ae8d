"""Self-signed certificates for localhost, 127.0.0.1, and further names."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
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
        """The context of a client that trusts only this certificate."""
        return ssl.create_default_context(cafile=self.chain)

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context


def make_pair(folder: Path, *, days: float = 365, password: bytes | None = None, names: Sequence[str] = ()) -> Pair:
    """Write a new pair into the folder, over a former one. It ends after `days`; `names` are further hosts."""
    hosts = [*map(x509.DNSName, ("localhost", *names)), x509.IPAddress(ip_address("127.0.0.1"))]
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now, serial = datetime.now(UTC), x509.random_serial_number()
    begin, end = now - timedelta(days=400), now + timedelta(days=days)
    builder = x509.CertificateBuilder(name, name, key.public_key(), serial, begin, end)
    builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pair = Pair(folder / "chain.pem", folder / "key.pem", serial)
    pair.chain.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return pair
