"""HTTPS in front of a plain server: a certificate of an authority of one's own, and a way to hold up what comes through."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUTHORITY, CERTIFICATE = "authority.pem", "certificate.pem"  # the second with its key
HELD = "held"  # while a file of this name is there, a connection lets through so much and no more
HELD_BYTES = 3 << 20
AT_ONCE = 1 << 16  # bytes
PORT = 443
_YEAR = datetime.timedelta(days=365)


def certify(folder: Path, names: Sequence[str]) -> None:
    """Write an authority's certificate into a folder, and one of it for some names; what is there already stays."""
    if (folder / CERTIFICATE).exists():
        return
    root, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]) for common_name in ("test bed", names[0])
    )
    now = datetime.datetime.now(datetime.UTC)

    def signed(name: x509.Name, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType) -> bytes:
        built = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(public)
        built = built.serial_number(x509.random_serial_number()).not_valid_before(now - _YEAR)
        built = built.not_valid_after(now + _YEAR).add_extension(extension, critical=True)
        return built.sign(root, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    own = x509.SubjectAlternativeName([x509.DNSName(dns_name) for dns_name in names])
    (folder / AUTHORITY).write_bytes(signed(issuer, root.public_key(), x509.BasicConstraints(ca=True, path_length=0)))
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / CERTIFICATE).write_bytes(written + signed(subject, key.public_key(), own))


async def serve(folder: Path, address: str, plain: int) -> None:
    """Serve what listens on a port of the loopback at an address, until this process ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE)

    async def copied(source: asyncio.StreamReader, target: asyncio.StreamWriter, held: Path | None) -> None:
        through = 0
        with contextlib.suppress(OSError):
            while data := await source.read(AT_ONCE):
                while held is not None and through + len(data) > HELD_BYTES and held.exists():
                    await asyncio.sleep(0.1)
                target.write(data)
                await target.drain()
                through += len(data)
        target.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, back = await asyncio.open_connection("127.0.0.1", plain)
        with contextlib.closing(back), contextlib.closing(writer):
            await asyncio.gather(copied(reader, back, None), copied(upstream_reader, writer, folder / HELD))

    server = await asyncio.start_server(connected, str(ipaddress.ip_address(address)), PORT, ssl=context)
    await server.serve_forever()
