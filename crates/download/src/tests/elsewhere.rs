//! Servers that lead elsewhere, and addresses that are not certified.

use super::server::ELSEWHERE;
use super::*;

#[tokio::test]
async fn nobody_is_led_elsewhere() {
    for peril in [Peril::Elsewhere, Peril::ShardsElsewhere] {
        let (_out, server, error) = fails(peril).await;
        let text = error.to_string();
        assert!(matches!(error, DownloadError::Strange { .. }), "{text}");
        assert!(text.contains(ELSEWHERE) && text.contains("302"), "{text}");
        server.set(peril);
        let reach = Reach {
            from: server.url(),
            ca: None,
            token: Some(Token::new("secret".to_owned())),
            patience: patience(Duration::from_millis(500)),
        };
        let asked = open(reach).await.map(drop);
        assert_eq!(asked.is_err(), peril == Peril::Elsewhere);
    }
}

#[tokio::test]
async fn with_a_certificate_nothing_is_said_in_the_clear() {
    let server = Server::start().await;
    let out = tempfile::tempdir().unwrap();
    let issuer = chomp_access::Issuer::in_memory().unwrap();
    let config = Config {
        ca: Some(issuer.ca_pem().to_owned()),
        ..config(&server.url(), out.path())
    };
    let error = get(config).await.unwrap_err();
    assert!(matches!(error, DownloadError::Url { .. }), "{error}");
    assert!(error.to_string().contains("https://"), "{error}");
    assert_eq!(server.requests(), 0);
}
