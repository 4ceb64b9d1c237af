//! Tests of tokens, the secrets file and certificates.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use rustls::client::verify_server_name;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::ParsedCertificate;

use super::*;

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
    let [one, other] = [(); 2].map(|()| Token::random());
    let text = one.secret();
    let random = text.strip_prefix("chomp1-").unwrap();
    // It goes into a header and into URLs of tools.
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    assert!(random.len() == 64 && random.bytes().all(is_digit), "{text}");
    assert_ne!(one, other);
    let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let digest = serde_json::to_value(TokenDigest::of("abc")).unwrap();
    assert_eq!(digest, sha);
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
    for name in NAMES.into_iter().chain(["10.0.0.1"]) {
        assert!(is_for(&first, name), "{name}");
    }
    assert!(!is_for(&first, "example.com"));
    let mut fewer = hosts(&NAMES[1..]);
    fewer.others = vec!["10.9.9.9".to_owned()];
    let (_, same) = Secrets::open(&path, &fewer).unwrap();
    assert_eq!(first.pem(), same.pem());

    let moved = hosts(&["example.com"]);
    let (still, second) = Secrets::open(&path, &moved).unwrap();
    assert!(is_for(&second, "example.com") && !is_for(&second, "example.org"));
    assert_eq!(secrets.table_id(), still.table_id());
    let (_, same) = Secrets::open(&path, &moved).unwrap();
    assert_eq!(second.pem(), same.pem());
}

/// Whether this is the certificate of a server with such a name or address.
fn is_for(certificate: &Certificate, name: &str) -> bool {
    let certificate = CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap();
    let certificate = ParsedCertificate::try_from(&certificate).unwrap();
    verify_server_name(&certificate, &name.try_into().unwrap()).is_ok()
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
        ("secret", secret[..42].into()),
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
        private::write(&path, &changed).unwrap();
        let error = open(&path).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(
            matches!(error, SecretsError::File(FileError::Malformed { .. })),
            "{field}: {text}"
        );
        assert!(!text.contains(&secret[..42]) && !text.contains(key_line));
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
    open(&path).unwrap();
    match chown(&path, Some(65_534), None) {
        Ok(()) => refused("OtherOwner"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
}

#[test]
fn secrets_are_never_shown() {
    let certificate = Certificate::new("name", &hosts(&NAMES).advertised).unwrap();
    let shown = format!(
        "{:?} {certificate:?} {:?}",
        Secrets::in_memory(),
        Token::random()
    );
    let key = "Secrets(Key { algorithm: SHA256 })";
    assert_eq!(shown, format!("{key} Certificate(..) Token(..)"));
}

#[test]
fn a_refusal_for_the_time_names_the_clock() {
    use rustls::CertificateError;

    let refused = |why| {
        let error = rustls::Error::InvalidCertificate(why);
        crate::certificate::refusal(&error).unwrap()
    };
    for why in [CertificateError::Expired, CertificateError::NotValidYet] {
        let text = refused(why);
        assert!(text.contains("clock"), "{text}");
    }
    assert!(!refused(CertificateError::NotValidForName).contains("clock"));
}

#[test]
fn a_name_that_no_certificate_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let error = Secrets::open(&path, &hosts(&["host", "höst"])).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("\"höst\"") && text.contains("--advertise"),
        "{error:?}"
    );
    assert!(!path.try_exists().unwrap());
}
