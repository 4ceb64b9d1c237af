//! The certificates by which clients know the coordinator.
//!
//! A table has an authority of its own, made when its coordinator starts for the first time. Its certificate goes to
//! the clients, in access files, and is valid whatever the clock says: what it vouches for comes and goes. The
//! coordinator shows clients a certificate that the authority signs when the coordinator starts, and again when that
//! one is old, or the clock has jumped.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

const DAY: u64 = 24 * 60 * 60;
/// How long the certificate of a coordinator is valid: the most that all clients accept.
const CERTIFICATE_DAYS: u64 = 397;
/// How old it may be before there is a new one: half of that.
const RENEWAL_DAYS: u64 = 198;
/// The latest time that is believed, in the year 8307: certificates cannot name all later ones.
const LATEST: u64 = 200_000_000_000;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// It cannot be made, for instance because a name cannot be in one.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("cannot use the certificate")]
    Tls(#[from] rustls::Error),
    /// A server has at least one name.
    #[error("a certificate needs a name or address by which clients reach the coordinator")]
    Nameless,
    /// A name has letters that none in a certificate has.
    #[error(
        "a certificate cannot have the name {0:?}: give one in ASCII letters, as xn--…, with --advertise"
    )]
    Name(String),
    /// Name, key and certificate do not belong together.
    #[error("the certificate of the authority is not that of its name and key")]
    Mismatch,
}

/// Vouches for the coordinator of one table.
pub(crate) struct Authority {
    key: KeyPair,
    pem: String,
    name: String,
}

impl Authority {
    /// A new authority.
    pub(crate) fn new(name: String) -> Result<Authority, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = Authority::params(&name);
        params.not_before = date_time_ymd(1970, 1, 1);
        // RFC 5280 has this year for what does not end.
        params.not_after = date_time_ymd(9999, 12, 31);
        let pem = params.self_signed(&key)?.pem();
        Ok(Authority { key, pem, name })
    }

    /// The authority that was kept as `key_pem` and `pem`.
    pub(crate) fn from_pem(
        name: String,
        key_pem: &str,
        pem: String,
    ) -> Result<Authority, AuthorityError> {
        let key = KeyPair::from_pem(key_pem)?;
        let certificate =
            CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| AuthorityError::Mismatch)?;
        let has = |part: &[u8]| certificate.windows(part.len()).any(|bytes| bytes == part);
        if !has(key.public_key_raw()) || !has(name.as_bytes()) {
            return Err(AuthorityError::Mismatch);
        }
        Ok(Authority { key, pem, name })
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    /// Its certificate, for clients.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Its key, to be kept secret.
    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The TLS configuration of a server with these names. `clock` tells the seconds since 1970.
    pub(crate) fn server_config(
        self: Arc<Self>,
        names: &[String],
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<ServerConfig, AuthorityError> {
        if names.is_empty() {
            return Err(AuthorityError::Nameless);
        }
        if let Some(name) = names.iter().find(|name| !name.is_ascii()) {
            return Err(AuthorityError::Name(name.clone()));
        }
        let signed = self.sign(names, clock())?;
        let certificate = Renewed {
            authority: self,
            names: names.to_vec(),
            clock: Box::new(clock),
            signed: Mutex::new(signed),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificate));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// A certificate for these names, from now on.
    fn sign(&self, names: &[String], now: u64) -> Result<Signed, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, names[0].as_str());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        // Valid from a day ago, as clocks differ.
        let start = now.min(LATEST).saturating_sub(DAY);
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(start);
        params.not_after = params.not_before + Duration::from_secs(CERTIFICATE_DAYS * DAY);
        // Signing takes the name of the authority, its key and nothing else of its certificate.
        let authority = Issuer::new(Authority::params(&self.name), &self.key);
        let certificate = params.signed_by(&key, &authority)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let chain = vec![certificate.der().clone()];
        let certified = CertifiedKey::from_der(chain, key, &default_provider())?;
        Ok(Signed {
            certified: Arc::new(certified),
            at: now,
        })
    }
}

/// A certificate with its key.
struct Signed {
    certified: Arc<CertifiedKey>,
    /// When it was signed, in seconds since 1970.
    at: u64,
}

/// The certificate of a coordinator, signed anew before clients refuse it.
struct Renewed {
    authority: Arc<Authority>,
    names: Vec<String>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    signed: Mutex<Signed>,
}

impl fmt::Debug for Renewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewed(..)")
    }
}

impl ResolvesServerCert for Renewed {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let now = (self.clock)();
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        // One from the future was signed before the clock went back.
        let is_good = (signed.at..=signed.at.saturating_add(RENEWAL_DAYS * DAY)).contains(&now);
        if !is_good {
            match self.authority.sign(&self.names, now) {
                Ok(new) => {
                    tracing::info!("the certificate is renewed, for {CERTIFICATE_DAYS} days");
                    *signed = new;
                }
                Err(error) => tracing::warn!("the certificate is not renewed: {error}"),
            }
        }
        Some(Arc::clone(&signed.certified))
    }
}
