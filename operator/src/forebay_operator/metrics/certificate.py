"""The adapter's own certificate: self-signed, for the names under which the API server knows its Service. No I/O."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

LIFE = datetime.timedelta(days=5 * 365)
RENEW_BEFORE = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Pair:
    """PEM, both."""

    certificate: bytes
    key: bytes


def make(service: str, namespace: str, now: datetime.datetime) -> Pair:
    """A new key with a certificate of its own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    host = f"{service}.{namespace}"
    names = [x509.DNSName(name) for name in (f"{host}.svc", f"{host}.svc.cluster.local", host)]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{host}.svc"[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Pair(certificate.public_bytes(pem), key.private_bytes(pem, private, serialization.NoEncryption()))


@functools.lru_cache(maxsize=1)
def ends(pair: Pair) -> datetime.datetime | None:
    """When the pair has to be replaced; None: at once, for it is not a certificate with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError):
        return None
    if certificate.public_key() != key.public_key():
        return None
    return certificate.not_valid_after_utc - RENEW_BEFORE


def serves(pair: Pair, now: datetime.datetime) -> bool:
    """Whether the pair can be served with for a good while yet."""
    end = ends(pair)
    return end is not None and now < end
