"""A certificate authority in a folder, for real TLS on loopback."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Issues server certificates; `file` is what `FROST_CA_FILE` is set to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("frost test authority")
        self._certificate = _certificate(self._name, self._name, self._key, self._key, [], authority=True)
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, *names: str, expired: bool = False, self_signed: bool = False) -> ssl.SSLContext:
        """A server's side of TLS with a certificate for `names`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(names[0])
        issuer, signer = (subject, key) if self_signed else (self._name, self._key)
        certificate = _certificate(subject, issuer, key, signer, names, expired=expired)
        file = self.folder / f"server-{certificate.serial_number}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    names: list[str] | tuple[str, ...],
    *,
    authority: bool = False,
    expired: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=20))
        .not_valid_after(now - timedelta(days=1) if expired else now + timedelta(days=20))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), False)
    return builder.sign(signer, hashes.SHA256())


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
