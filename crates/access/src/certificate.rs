//! The certificate by which clients know the coordinator, and why a client does not accept one.
//!
//! It is self-signed. Access files hold it, and clients with an access file trust it alone. It is no authority, since
//! clients accept no authority's certificate as that of a server. It is valid whatever the clock says.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError as InvalidCertificate, ServerConfig};

/// There is no certificate for these hosts.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot make a certificate for {hosts:?}: give a name in ASCII letters, as xn--…, with --advertise"
)]
pub struct CertificateError {
    hosts: Vec<String>,
    source: rcgen::Error,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Certificate {
    pem: String,
    key_pem: String,
    key: Arc<CertifiedKey>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

impl Certificate {
    /// For a server that clients reach by these DNS names and IP addresses. Fails if one cannot be in a certificate.
    pub fn new(name: &str, hosts: &[String]) -> Result<Certificate, CertificateError> {
        let failed = |source| CertificateError {
            hosts: hosts.to_owned(),
            source,
        };
        let mut params = CertificateParams::new(hosts).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = date_time_ymd(1970, 1, 1);
        // RFC 5280 has this year for what does not end.
        params.not_after = date_time_ymd(9999, 12, 31);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let made = params.self_signed(&key).map_err(failed)?;
        let made = Certificate::from_pem(made.pem(), key.serialize_pem());
        Ok(made.expect("a new certificate is one, and its key belongs to it"))
    }

    /// The certificate that was kept as `pem`, with its key; none if the two are no such pair.
    pub(crate) fn from_pem(pem: String, key_pem: String) -> Option<Certificate> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).ok()?;
        let key = CertifiedKey::from_der(vec![certificate], key, &default_provider()).ok()?;
        Some(Certificate {
            pem,
            key_pem,
            key: Arc::new(key),
        })
    }

    /// The certificate, for clients.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The TLS configuration of a server that shows this certificate. Fails if TLS does not work with it.
    pub fn server_config(&self) -> Result<ServerConfig, rustls::Error> {
        let resolver = SingleCertAndKey::from(Arc::clone(&self.key));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Why the certificate of a server was refused, for people, if a request failed for that.
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(rustls::Error::InvalidCertificate(InvalidCertificate::UnknownIssuer)) => {
                let what = "neither the access file (--access FILE) nor an authority that this machine trusts vouches \
                            for it";
                return Some(what.to_owned());
            }
            Some(rustls::Error::InvalidCertificate(why)) => {
                let is_of_time = matches!(
                    why,
                    InvalidCertificate::Expired
                        | InvalidCertificate::ExpiredContext { .. }
                        | InvalidCertificate::NotValidYet
                        | InvalidCertificate::NotValidYetContext { .. }
                );
                let clock = if is_of_time {
                    "; or the clock of this machine is wrong"
                } else {
                    ""
                };
                return Some(format!("{why}{clock}"));
            }
            _ => {}
        }
        // `source` of an I/O error does not return the error that it wraps, but the source of that error.
        let wrapped = error.downcast_ref().and_then(io::Error::get_ref);
        cause = wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped));
    }
    None
}
