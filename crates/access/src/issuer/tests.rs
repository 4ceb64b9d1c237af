//! Tests of tokens, the secrets file and certificates.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

use super::*;

const NOW: u64 = 1_800_000_000;

fn issuer() -> Issuer {
    Issuer::in_memory().unwrap()
}

#[test]
fn a_token_is_good_until_it_expires() {
    let issuer = issuer();
    let check = |token: &Token, now| issuer.check(Some(token.secret()), now);
    let ann = Holder {
        number: 7,
        serial: 2,
    };
    let token = issuer.issue(ann, Some(NOW));
    assert_eq!(check(&token, 0), Ok(ann));
    assert_eq!(check(&token, NOW - 1), Ok(ann));
    assert_eq!(check(&token, NOW), Err(Denied::Expired));
    assert_eq!(check(&token, u64::MAX), Err(Denied::Expired));
    let ever = issuer.issue(Holder::OWNER, None);
    assert_eq!(check(&ever, u64::MAX), Ok(Holder::OWNER));
    assert_eq!(issuer.check(None, 0), Err(Denied::Missing));
    // A token goes into a header, so all of it is visible ASCII.
    assert!(ever.secret().bytes().all(|byte| byte.is_ascii_graphic()));
}

#[test]
fn no_other_text_is_a_token() {
    let issuer = issuer();
    let wrong = |text: &str| assert_eq!(issuer.check(Some(text), 0), Err(Denied::Wrong), "{text}");
    for token in [
        issuer.issue(Holder::OWNER, Some(NOW)),
        issuer.issue(Holder::OWNER, None),
    ] {
        let good = token.secret();
        for (at, _) in good.char_indices() {
            wrong(&good[..at]);
            wrong(&good[at + 1..]);
            for other in ["0", "9", "f", "-", "F", "é", "\0"] {
                let changed = format!("{}{other}{}", &good[..at], &good[at + 1..]);
                if changed != good {
                    wrong(&changed);
                }
            }
        }
        wrong(&format!("{good}0"));
        wrong(&format!(" {good}"));
        wrong(&good.to_uppercase());
        wrong(
            &good
                .replace("-never-", "-2000000000-")
                .replace(&format!("-{NOW}-"), "-never-"),
        );
    }
    for text in [
        "",
        "-",
        "--",
        "chomp2-0-0-never-",
        "chomp2-0-0-never",
        "chomp2",
    ] {
        wrong(text);
    }
    wrong(self::issuer().issue(Holder::OWNER, None).secret());
    // The MACs of other uses of the secret are no tokens.
    let mac = hex(hmac::sign(&issuer.key, TABLE_LABEL).as_ref());
    wrong(&format!("chomp2-0-0-never-{mac}"));
    wrong(&format!("-{mac}"));
    let label = std::str::from_utf8(TABLE_LABEL).unwrap();
    wrong(&format!("{label}-{mac}"));
}

#[test]
fn the_secrets_file_keeps_who_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let first = Issuer::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let content = fs::read(&path).unwrap();

    let second = Issuer::open(&path).unwrap();
    assert_eq!(content, fs::read(&path).unwrap());
    assert_eq!(first.table_id(), second.table_id());
    assert_eq!(first.ca_pem(), second.ca_pem());
    let token = first.issue(Holder::OWNER, Some(NOW));
    assert_eq!(second.check(Some(token.secret()), 0), Ok(Holder::OWNER));
    assert_eq!(token, second.issue(Holder::OWNER, Some(NOW)));

    let other = Issuer::open(&folder.path().join("other.json")).unwrap();
    assert_ne!(first.table_id(), other.table_id());
    assert_eq!(other.check(Some(token.secret()), 0), Err(Denied::Wrong));
}

#[test]
fn damaged_secrets_are_refused_without_being_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    Issuer::open(&path).unwrap();
    let good: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let other = Issuer::in_memory().unwrap();
    let secret = good["secret"].as_str().unwrap();
    let key = good["authority_key"].as_str().unwrap();
    let key_line = key.lines().nth(1).unwrap();
    for (field, value) in [
        ("format", 3.into()),
        ("format", secret.into()),
        ("secret", secret[1..].into()),
        ("secret", secret.replace(&secret[..1], "x").into()),
        ("secret", hex(&[7; 32]).into()),
        ("authority_key", key.replace(key_line, secret).into()),
        ("authority_key", secret.into()),
        ("authority_key", other.authority.key_pem().into()),
        ("authority", other.ca_pem().into()),
        ("authority", key.into()),
        ("authority", "".into()),
    ] {
        let mut changed = good.clone();
        changed[field] = value;
        private::write(&path, changed.to_string().as_bytes()).unwrap();
        let error = Issuer::open(&path).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(
            matches!(error, IssuerError::File(FileError::Malformed { .. })),
            "{field}: {text}"
        );
        assert!(!text.contains(&secret[1..]) && !text.contains(key_line));
    }
    // Nothing was made anew in its place.
    assert!(Issuer::open(&path).is_err());
}

/// Whoever knows the secrets makes tokens: they count only if this user wrote them there.
#[test]
fn planted_secrets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [path, strangers] = ["secrets.json", "strangers.json"].map(|name| folder.path().join(name));
    let stranger = Issuer::open(&strangers).unwrap();
    let token = stranger.issue(Holder::OWNER, None);
    let refused = |what: &str| {
        let error = Issuer::open(&path).unwrap_err();
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
    assert!(Issuer::open(&path).is_err());
    fs::remove_dir(&path).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o602] {
        Issuer::open(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        refused("Exposed");
    }
    // A folder that was packed elsewhere brings a private file of this user's own, with a right content.
    private::write(&path, &fs::read(&strangers).unwrap()).unwrap();
    refused("Copied");
    let old = fs::read_to_string(&strangers).unwrap();
    let old = old.replace("\"format\": 2", "\"format\": 1");
    let (start, _) = old.rsplit_once(",\n  \"inode\"").unwrap();
    private::write(&path, format!("{start}}}").as_bytes()).unwrap();
    refused("Copied");
    // Only root can give a file away.
    private::write(&path, &fs::read(&strangers).unwrap()).unwrap();
    match chown(&path, Some(65_534), None) {
        Ok(()) => refused("OtherOwner"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }

    let own = Issuer::open(&path).unwrap();
    assert_eq!(own.check(Some(token.secret()), NOW), Err(Denied::Wrong));
}

#[test]
fn copied_secrets_are_good_again_for_who_adopts_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let table = Issuer::open(&path).unwrap().table_id();
    let bytes = fs::read(&path).unwrap();
    private::write(&path, &bytes).unwrap();
    assert!(Issuer::open(&path).is_err());
    Issuer::adopt(&path).unwrap();
    assert_eq!(Issuer::open(&path).unwrap().table_id(), table);
    private::write(&path, b"{}").unwrap();
    assert!(Issuer::adopt(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"{}");
}

#[test]
fn secrets_are_never_shown() {
    let issuer = issuer();
    let shown = format!("{issuer:?} {:?}", issuer.issue(Holder::OWNER, None));
    assert_eq!(
        shown,
        format!("Issuer({:016x}) Token(..)", issuer.table_id())
    );
}

/// The time by the clock, which clients look at.
fn clock() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "rustls looks at the same clock")]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// The protocol that a client which trusts `ca` agrees on with the server `name`.
fn handshake(server: ServerConfig, ca: &str, name: &str) -> Result<Vec<u8>, rustls::Error> {
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
fn clients_take_the_certificate_of_their_authority_only() {
    let now = clock();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let ca = Issuer::open(&path).unwrap().ca_pem().to_owned();
    let again = Issuer::open(&path).unwrap();
    let names = ["example.org", "localhost", "127.0.0.1", "::1"];
    let server = |issuer: &Issuer, at| {
        let config = issuer.server_config(&names.map(str::to_owned), move || at);
        config.unwrap()
    };
    for name in names {
        let protocol = handshake(server(&again, now), &ca, name).unwrap();
        assert_eq!(protocol, b"h2", "{name}");
    }
    assert!(handshake(server(&again, now), &ca, "example.com").is_err());
    let other = Issuer::in_memory().unwrap();
    assert!(handshake(server(&other, now), &ca, "example.org").is_err());

    // Clocks may differ by a day, and a coordinator may run for a year.
    let hour = 60 * 60;
    for (at, good) in [
        (now + 23 * hour, true),
        (now + 25 * hour, false),
        (now - 395 * 24 * hour, true),
        (now - 397 * 24 * hour, false),
    ] {
        let result = handshake(server(&again, at), &ca, "example.org");
        assert_eq!(result.is_ok(), good, "{result:?}");
    }
}

/// The clock of a coordinator that runs for years, or jumps: clients whose clock is right accept what it shows them.
#[test]
fn certificates_are_renewed_in_time() {
    let issuer = Issuer::in_memory().unwrap();
    let (year, now) = (365 * 24 * 60 * 60, clock());
    let clock = Arc::new(AtomicU64::new(now));
    let of_server = Arc::clone(&clock);
    let names = ["localhost".to_owned()];
    let config = issuer.server_config(&names, move || of_server.load(Ordering::Relaxed));
    let config = config.unwrap();
    for (at, good) in [
        (now, true),
        (now + 2 * year, false),
        (now, true),
        (0, false),
        (now, true),
    ] {
        clock.store(at, Ordering::Relaxed);
        let result = handshake(config.clone(), issuer.ca_pem(), "localhost");
        assert_eq!(result.is_ok(), good, "{result:?}");
    }
}

#[test]
fn impossible_names_and_times_are_no_panic() {
    let issuer = issuer();
    let config = |names: &[&str], now| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        issuer.server_config(&names, move || now)
    };
    assert!(matches!(
        config(&[], NOW),
        Err(IssuerError::Authority(AuthorityError::Nameless))
    ));
    let refused = config(&["host", "höst"], NOW).unwrap_err().to_string();
    assert!(
        refused.contains("\"höst\"") && refused.contains("--advertise"),
        "{refused}"
    );
    for now in [0, 1, NOW, u64::from(u32::MAX), u64::MAX] {
        config(&["a"], now).unwrap();
    }
}
