//! Access files: all that one needs to speak to a coordinator, in one private file.
//!
//! A JSON object with the fields of [`Access`], readable by its owner only, or lent by root to a group.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::FileError;
use crate::private::{self, PrivateKind};
use crate::token::Token;

pub(crate) const KIND: PrivateKind = PrivateKind {
    name: "access file",
    own: false,
};

const STDIN: &str = "-";

/// All that a worker, or a person, needs to speak to a coordinator. Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Where it listens, as `https://host:port`.
    pub coordinator: String,
    /// The certificate that it shows, as PEM; none without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Authorizes all calls. None if only the calls are made that everybody may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

impl Access {
    /// Reads also a pipe of the shell (`<(…)`) or, named `-`, standard input. Fails if others can read the file.
    pub fn read(path: &Path) -> Result<Access, FileError> {
        let read: Access = if path == Path::new(STDIN) {
            private::read_from(io::stdin().lock(), path, KIND)?
        } else {
            private::read(path, KIND)?
        };
        read.checked(path)
    }

    pub(crate) fn checked(self, path: &Path) -> Result<Access, FileError> {
        let wrong = |what| KIND.malformed(path, what);
        let url = &self.coordinator;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(wrong("the coordinator is not an http or https address"));
        }
        if let Some(token) = &self.token
            && !token.secret().bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(wrong("the token has characters that no token has"));
        }
        Ok(self)
    }

    /// Writes an access file that only its owner can read, in place of one that is there.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        private::write(path, self)
    }

    /// The content of its file.
    pub fn to_text(&self) -> String {
        private::text(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    const SECRET: &str = "very-secret-indeed";

    fn access() -> Access {
        Access {
            coordinator: "https://example.org:7171".into(),
            ca: Some("-----BEGIN CERTIFICATE-----\n".into()),
            token: Some(Token::new(SECRET.into())),
        }
    }

    #[test]
    fn only_its_owner_can_read_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.json");
        let set = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let mut access = access();
        access.write(&path).unwrap();
        assert_eq!(Access::read(&path).unwrap(), access);
        for mode in [0o640, 0o604, 0o620, 0o601, 0o777] {
            set(mode);
            let error = Access::read(&path).unwrap_err();
            assert!(matches!(error, FileError::Exposed { .. }), "{error:?}");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        // One that is there is replaced, also one that was exposed.
        access.ca = None;
        access.token = None;
        access.write(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        set(0o400);
        assert_eq!(Access::read(&path).unwrap(), access);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let [path, pipe, link] =
            ["access.json", "pipe", "link"].map(|name| folder.path().join(name));
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let error = Access::read(&pipe).unwrap_err();
        assert!(format!("{error:?}").contains("Pipe"), "{error:?}");
        // A user may name a link; what is written there does not go through it.
        access().write(&path).unwrap();
        symlink(&path, &link).unwrap();
        assert_eq!(Access::read(&link).unwrap(), access());
        let error = access().write(&link).unwrap_err();
        assert!(format!("{error:?}").contains("Link"), "{error:?}");
    }

    #[test]
    fn what_is_no_access_file_is_refused_without_being_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.json");
        let missing = Access::read(&path).unwrap_err();
        assert!(matches!(missing, FileError::Missing { .. }), "{missing:?}");
        for content in [
            String::new(),
            format!("{SECRET:?}"),
            format!("[{SECRET:?}]"),
            format!("{{\"token\": {SECRET:?}"),
            format!("{{\"token\": {SECRET:?}}}"),
            format!("{{\"coordinator\": 5, \"token\": {SECRET:?}}}"),
            format!("{{\"coordinator\": \"http://a\", \"token\": [{SECRET:?}]}}"),
            format!("{{\"coordinator\": \"http://a\", \"token\": \"{SECRET}\\n\"}}"),
            format!("{{\"coordinator\": \"ftp://a\", \"token\": {SECRET:?}}}"),
            format!("{{\"coordinator\": \"http://a\", \"x\": {SECRET:?}}}"),
            format!("{{\"coordinator\": \"http://a\", {SECRET:?}: 1}}"),
            // Whole, and too long.
            format!("{{\"coordinator\": \"http://a\"}}{}", " ".repeat(2 << 20)),
        ] {
            chomp_durable_files::put_private(&path, content.as_bytes()).unwrap();
            let error = Access::read(&path).unwrap_err();
            assert!(matches!(error, FileError::Malformed { .. }), "{error:?}");
            let text = format!("{error} {error:?}");
            assert!(
                text.contains("access.json") && !text.contains(SECRET),
                "{text}"
            );
        }
    }
}
