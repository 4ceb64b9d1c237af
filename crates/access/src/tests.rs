//! Tests of tokens, the secrets file and certificates.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

use super::*;
use crate::certificate::CertificateError;

/// Names of which a certificate is for all.
const NAMES: [&str; 4] = ["example.org", "localhost", "127.0.0.1", "::1"];

fn hosts(advertised: &[&str]) -> Hosts {
    let advertised = advertised.iter().map(|&host| host.to_owned()).collect();
    let others = vec!["10.0.0.1".to_owned()];
    Hosts { advertised, others }
}

fn open(path: &Path) -> Result<(Secrets, Certificate), SecretsError> {
    Secrets::open(path, &hosts(&NAMES))
}

#[test]
fn a_token_is_short_and_random_and_known_by_its_digest() {
    let [one, other] = [(); 2].map(|()| Token::random().unwrap());
    let text = one.secret();
    assert_eq!((text.len(), &text[..7]), (50, "chomp1-"));
    // It goes into a header and into URLs of tools.
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    assert!(text.bytes().all(is_digit), "{text}");
    assert_ne!(one, other);
    assert_ne!(TokenDigest::of(text), TokenDigest::of(other.secret()));
    let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        format!("{:?}", TokenDigest::of("abc")),
        format!("TokenDigest({sha:?})")
    );
}

#[test]
fn the_secrets_file_keeps_who_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let (first, certificate) = open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let content = fs::read(&path).unwrap();

    let (second, again) = open(&path).unwrap();
    assert_eq!(content, fs::read(&path).unwrap());
    assert_eq!(first.table_id(), second.table_id());
    assert_eq!(first.seed(7), second.seed(7));
    assert_ne!(first.seed(7), second.seed(8));
    assert_eq!(certificate.pem(), again.pem());

    let (other, certificate) = open(&folder.path().join("other.json")).unwrap();
    assert_ne!(first.table_id(), other.table_id());
    assert_ne!(certificate.pem(), again.pem());
}

/// Addresses come and go with each network: only a name that clients were told needs another certificate.
#[test]
fn the_certificate_is_made_anew_when_the_advertised_names_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let (secrets, first) = open(&path).unwrap();
    let mut fewer = hosts(&NAMES[1..]);
    fewer.others = vec!["10.9.9.9".to_owned()];
    let (_, same) = Secrets::open(&path, &fewer).unwrap();
    assert_eq!(first.pem(), same.pem());

    let moved = hosts(&["example.com"]);
    let (still, second) = Secrets::open(&path, &moved).unwrap();
    assert_ne!(first.pem(), second.pem());
    assert_eq!(secrets.table_id(), still.table_id());
    let server = second.server_config().unwrap();
    assert!(handshake(server.clone(), second.pem(), "example.com").is_ok());
    assert!(handshake(server, first.pem(), "example.com").is_err());
    let (_, same) = Secrets::open(&path, &moved).unwrap();
    assert_eq!(second.pem(), same.pem());
}

#[test]
fn damaged_secrets_are_refused_without_being_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    open(&path).unwrap();
    let good: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let other = Certificate::new("other", &hosts(&NAMES).advertised).unwrap();
    let secret = good["secret"].as_str().unwrap();
    let key = good["key"].as_str().unwrap();
    let key_line = key.lines().nth(1).unwrap();
    for (field, value) in [
        ("format", 2.into()),
        ("format", secret.into()),
        ("secret", secret[1..].into()),
        ("hosts", key.into()),
        ("key", key.replace(key_line, secret).into()),
        ("key", secret.into()),
        ("key", other.key_pem().into()),
        ("certificate", other.pem().into()),
        ("certificate", key.into()),
        ("certificate", "".into()),
    ] {
        let mut changed = good.clone();
        changed[field] = value;
        private::write(&path, changed.to_string().as_bytes()).unwrap();
        let error = open(&path).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(
            matches!(error, SecretsError::File(FileError::Malformed { .. })),
            "{field}: {text}"
        );
        assert!(!text.contains(&secret[1..]) && !text.contains(key_line));
    }
    // Nothing was made anew in its place.
    assert!(open(&path).is_err());
}

#[test]
fn planted_secrets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [path, strangers] = ["secrets.json", "strangers.json"].map(|name| folder.path().join(name));
    open(&strangers).unwrap();
    let refused = |what: &str| {
        let error = open(&path).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(
            text.contains(what) && text.contains("secrets.json"),
            "{text}"
        );
        fs::remove_file(&path).unwrap();
    };
    symlink(&strangers, &path).unwrap();
    refused("Link");
    symlink(folder.path().join("none.json"), &path).unwrap();
    refused("Link");
    fs::hard_link(&strangers, &path).unwrap();
    refused("OtherNames");
    fs::create_dir(&path).unwrap();
    assert!(open(&path).is_err());
    fs::remove_dir(&path).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o602] {
        open(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        refused("Exposed");
    }
    // Only root can give a file away.
    private::write(&path, &fs::read(&strangers).unwrap()).unwrap();
    match chown(&path, Some(65_534), None) {
        Ok(()) => refused("OtherOwner"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
}

#[test]
fn secrets_are_never_shown() {
    let secrets = Secrets::in_memory().unwrap();
    let certificate = Certificate::new("name", &hosts(&NAMES).advertised).unwrap();
    let shown = format!("{secrets:?} {certificate:?} {:?}", Token::random().unwrap());
    let table = secrets.table_id();
    assert_eq!(
        shown,
        format!("Secrets({table:016x}) Certificate(..) Token(..)")
    );
}

/// The protocol that a client which trusts `ca` agrees on with the server `name`.
fn handshake(server: rustls::ServerConfig, ca: &str, name: &str) -> Result<Vec<u8>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap())?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut unread = &bytes[..];
        while !unread.is_empty() {
            server.read_tls(&mut unread).unwrap();
            server.process_new_packets()?;
        }
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut unread = &bytes[..];
        while !unread.is_empty() {
            client.read_tls(&mut unread).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(client.alpn_protocol().unwrap().to_vec())
}

#[test]
fn clients_take_the_certificate_of_their_access_file_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let (_, made) = open(&path).unwrap();
    let (_, kept) = open(&path).unwrap();
    for certificate in [&made, &kept] {
        let server = certificate.server_config().unwrap();
        for name in NAMES.into_iter().chain(["10.0.0.1"]) {
            let protocol = handshake(server.clone(), made.pem(), name).unwrap();
            assert_eq!(protocol, b"h2", "{name}");
        }
        assert!(handshake(server, made.pem(), "example.com").is_err());
    }
    let (_, other) = open(&folder.path().join("other.json")).unwrap();
    let server = other.server_config().unwrap();
    assert!(handshake(server, made.pem(), "example.org").is_err());
}

#[test]
fn a_name_that_no_certificate_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let error = Secrets::open(&path, &hosts(&["host", "höst"])).unwrap_err();
    assert!(
        matches!(error, SecretsError::Certificate(CertificateError::Host(_))),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains("\"höst\"") && text.contains("--advertise"),
        "{text}"
    );
    assert!(!path.try_exists().unwrap());
}
