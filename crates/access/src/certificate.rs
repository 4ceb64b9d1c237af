//! The certificate by which clients know the coordinator, and why a client does not accept one.
//!
//! It is self-signed and in the access files, where clients trust it alone. It is no authority: clients accept one only
//! for other certificates, not for a server that shows it itself. It is valid whatever the clock says.

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

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("cannot use the certificate")]
    Use(#[from] rustls::Error),
    /// PEM that is none.
    #[error("the certificate or its key is no PEM")]
    Pem,
    /// A name has letters that none in a certificate has.
    #[error(
        "a certificate cannot have the name {0:?}: give one in ASCII letters, as xn--…, with --advertise"
    )]
    Host(String),
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
    /// A new one with this name, for a server that clients reach by these DNS names and IP addresses.
    ///
    /// # Errors
    ///
    /// If one of these cannot be in a certificate.
    pub fn new(name: &str, hosts: &[String]) -> Result<Certificate, CertificateError> {
        if let Some(host) = hosts.iter().find(|host| !host.is_ascii()) {
            return Err(CertificateError::Host(host.clone()));
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = date_time_ymd(1970, 1, 1);
        // RFC 5280 has this year for what does not end.
        params.not_after = date_time_ymd(9999, 12, 31);
        let certificate = params.self_signed(&key)?;
        Certificate::from_pem(certificate.pem(), key.serialize_pem())
    }

    /// The certificate that was kept as `pem`, with its key.
    pub(crate) fn from_pem(pem: String, key_pem: String) -> Result<Certificate, CertificateError> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes());
        let (Ok(certificate), Ok(key)) = (certificate, key) else {
            return Err(CertificateError::Pem);
        };
        let key = CertifiedKey::from_der(vec![certificate], key, &default_provider())?;
        Ok(Certificate {
            pem,
            key_pem,
            key: Arc::new(key),
        })
    }

    /// The certificate, for clients.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its key, to be kept secret.
    pub(crate) fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The TLS configuration of a server that shows this certificate.
    ///
    /// # Errors
    ///
    /// If TLS does not work with it.
    pub fn server_config(&self) -> Result<ServerConfig, CertificateError> {
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
        if let Some(rustls::Error::InvalidCertificate(why)) = of_tls(error) {
            return Some(explain(why));
        }
        cause = error.source();
    }
    None
}

/// The error of TLS that this is, or that errors of a stream wrap: their sources leave out what they wrap.
fn of_tls<'a>(mut error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    loop {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        error = error.downcast_ref::<io::Error>()?.get_ref()?;
    }
}

fn explain(why: &InvalidCertificate) -> String {
    match why {
        InvalidCertificate::UnknownIssuer => {
            "neither the access file (--access FILE) nor an authority that this machine trusts vouches for it"
                .to_owned()
        }
        InvalidCertificate::NotValidForName | InvalidCertificate::NotValidForNameContext { .. } => {
            "it is that of a server with another name".to_owned()
        }
        other => other.to_string(),
    }
}
