//! The participants of a table, and the digests of their tokens.
//!
//! The file is a JSON object: `format` (2) and `participants`, a list of objects with `name`, `number`, `token` (its
//! [digest](TokenDigest)) and `revoked`. It is private, and stands beside the secrets.
//!
//! A journal knows participants by number. Nobody leaves the list, so that a coordinator that was away learns whom it
//! may not trust any more. A participant that is revoked and added again is another one, with another number. All
//! numbers but the owner's are random: a table may get a new list, and nobody in it inherits what somebody else did.

use std::collections::HashSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use chomp_durable_files::{Claim, FileError as DurableError};
use serde::{Deserialize, Serialize};

use crate::error::FileError;
use crate::private::{self, PrivateKind};
use crate::token::{Token, TokenDigest};

/// The name of the table's owner among the participants.
pub const OWNER: &str = "owner";
/// The number of the table's owner. An owner that was revoked and added again has another, like everybody.
pub const OWNER_NUMBER: u32 = 0;
/// The most participants of a table, with those that were revoked.
pub const PARTICIPANTS_MAX: usize = 4096;
/// The longest name of a participant, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

const FORMAT: u32 = 2;
/// How often a change looks whether those of other processes are done, which take milliseconds; and how long it waits
/// until it looks again.
const TURN_TRIES: u32 = 500;
const TURN_PAUSE: Duration = Duration::from_millis(10);
/// No participant has this number.
const NUMBER_OF_NOBODY: u32 = u32::MAX;
pub(crate) const KIND: PrivateKind = PrivateKind {
    name: "list of participants",
    own: true,
};

/// Why a caller is turned away. The texts say what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum Denied {
    #[error("no token: give --access FILE")]
    Missing,
    #[error("the token is not of this table's coordinator")]
    Wrong,
    #[error("the token was taken back: ask the owner of the table for a new access file")]
    Revoked,
}

/// A participant: it has a token, or had one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Participant {
    /// For people: 1 to [`NAME_BYTES_MAX`] letters, digits, `.`, `_`, `-`, a letter or digit first. No two that are
    /// not revoked have the same.
    pub name: String,
    /// The number by which journals know it. No other one has it.
    pub number: u32,
    /// The digest of its token.
    pub token: TokenDigest,
    /// Whether the token was taken back.
    pub revoked: bool,
}

/// Why a list was not changed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum ChangeError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{0:?} is no name for a participant: it has 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` or `-`, and begins \
         with a letter or digit"
    )]
    Name(String),
    #[error("there is a participant {0} already: revoke it first, or choose another name")]
    Taken(String),
    #[error(
        "there is no participant {0} with access: `chomp access list` shows those that there are"
    )]
    Unknown(String),
    #[error("a table has at most {PARTICIPANTS_MAX} participants, with those that were revoked")]
    TooMany,
}

/// The participants of a table, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Participants(Vec<Participant>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileContent {
    format: u32,
    participants: Vec<Participant>,
}

impl Participants {
    /// No participants if there is no file. Fails if others can read the file.
    pub fn read(path: &Path) -> Result<Participants, FileError> {
        match private::read(path, KIND) {
            Ok(content) => Participants::from_content(content, path),
            Err(FileError::Missing { .. }) => Ok(Participants::default()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn from_content(
        content: FileContent,
        path: &Path,
    ) -> Result<Participants, FileError> {
        let (mut names, mut tokens) = (HashSet::new(), HashSet::new());
        let mut numbers = HashSet::from([NUMBER_OF_NOBODY]);
        let list = content.participants;
        let is_list = content.format == FORMAT
            && list.len() <= PARTICIPANTS_MAX
            && list.iter().all(|one| {
                let is_named = is_name(&one.name) && (one.revoked || names.insert(&one.name));
                is_named && numbers.insert(one.number) && tokens.insert(&one.token)
            });
        if is_list {
            Ok(Participants(list))
        } else {
            let what = format!("these are no participants in format {FORMAT}");
            Err(KIND.malformed(path, what))
        }
    }

    /// Changes the list in the file at `path`, one process at a time. Fails if another one takes seconds.
    pub fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Participants) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        let _claim = claim(path)?;
        let mut list = Participants::read(path)?;
        let changed = change(&mut list)?;
        let content = FileContent {
            format: FORMAT,
            participants: list.0,
        };
        private::write(path, &content)?;
        Ok(changed)
    }

    /// Adds a participant, and returns its token. Fails if `name` is no valid name, if a participant has it, or if
    /// there are too many.
    pub fn add(&mut self, name: &str) -> Result<Token, ChangeError> {
        if !is_name(name) {
            return Err(ChangeError::Name(name.to_owned()));
        }
        if self.named(name).is_ok() {
            return Err(ChangeError::Taken(name.to_owned()));
        }
        if self.0.len() >= PARTICIPANTS_MAX {
            return Err(ChangeError::TooMany);
        }
        let random = || fastrand::u32(OWNER_NUMBER + 1..NUMBER_OF_NOBODY);
        let mut number = if name == OWNER {
            OWNER_NUMBER
        } else {
            random()
        };
        while self.get(number).is_some() {
            number = random();
        }
        let token = Token::random();
        self.0.push(Participant {
            name: name.to_owned(),
            number,
            token: TokenDigest::of(token.secret()),
            revoked: false,
        });
        Ok(token)
    }

    /// The owner's token: `known`, if the list has its digest for the owner; else a new one, whose digest replaces that
    /// in the list. The owner keeps its number.
    pub fn keep_or_renew_owner_token(
        &mut self,
        known: Option<Token>,
    ) -> Result<Token, ChangeError> {
        let Ok(owner) = self.named(OWNER) else {
            return self.add(OWNER);
        };
        let is_known = |token: &Token| owner.token == TokenDigest::of(token.secret());
        let token = known.filter(is_known).unwrap_or_else(Token::random);
        owner.token = TokenDigest::of(token.secret());
        Ok(token)
    }

    /// Takes the token of a participant back. Units with too few other finders are computed again.
    pub fn revoke(&mut self, name: &str) -> Result<(), ChangeError> {
        self.named(name)?.revoked = true;
        Ok(())
    }

    /// All of them, also those that were revoked.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Participant> {
        self.0.iter()
    }

    /// The one with this number.
    pub fn get(&self, number: u32) -> Option<&Participant> {
        self.iter().find(|one| one.number == number)
    }

    /// The participant whose token has this digest, if the token is good. Fails if it is not.
    pub fn admit(&self, token: &TokenDigest) -> Result<&Participant, Denied> {
        let found = self.iter().find(|one| one.token == *token);
        match found.ok_or(Denied::Wrong)? {
            one if one.revoked => Err(Denied::Revoked),
            one => Ok(one),
        }
    }

    fn named(&mut self, name: &str) -> Result<&mut Participant, ChangeError> {
        let mut all = self.0.iter_mut();
        let found = all.find(|one| one.name == name && !one.revoked);
        found.ok_or_else(|| ChangeError::Unknown(name.to_owned()))
    }
}

/// The right to change the list, which ends when it is dropped. Its lock is on a file that only users who may write in
/// the folder can open: everybody who can open a file can lock it.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread of a command, or of a coordinator that serves nobody yet"
)]
fn claim(path: &Path) -> Result<Claim, FileError> {
    for _ in 0..TURN_TRIES {
        match Claim::begin(path) {
            Err(DurableError::InUse { .. }) => thread::sleep(TURN_PAUSE),
            claimed => return Ok(claimed?),
        }
    }
    Ok(Claim::begin(path)?)
}

/// Whether this may be the name of a participant: names become parts of file names, and are shown in terminals.
fn is_name(name: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(of_name)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use serde_json::Value;

    use super::*;

    fn admitted(list: &Participants, token: &Token) -> Result<u32, Denied> {
        let digest = TokenDigest::of(token.secret());
        list.admit(&digest).map(|one| one.number)
    }

    #[test]
    fn participants_come_and_go_and_come_as_others() {
        let mut list = Participants::default();
        let (ann, bob) = (list.add("ann").unwrap(), list.add("bob.laptop-2").unwrap());
        let number = admitted(&list, &ann).unwrap();
        assert!(number != OWNER_NUMBER && admitted(&list, &bob) != Ok(number));
        list.revoke("ann").unwrap();
        assert!(admitted(&list, &bob).is_ok());
        assert!(matches!(list.revoke("ann"), Err(ChangeError::Unknown(_))));
        let again = list.add("ann").unwrap();
        assert!(admitted(&list, &again).is_ok_and(|new| new != number));
        assert_eq!(admitted(&list, &ann), Err(Denied::Revoked), "a stolen one");
        assert!(list.get(number).unwrap().revoked);
        assert_eq!(admitted(&list, &Token::random()), Err(Denied::Wrong));
    }

    #[test]
    fn the_owner_stays_the_owner_until_it_is_revoked() {
        let mut list = Participants::default();
        let token = list.keep_or_renew_owner_token(None).unwrap();
        assert_eq!(admitted(&list, &token), Ok(OWNER_NUMBER));
        assert_eq!(
            list.keep_or_renew_owner_token(Some(token.clone())).unwrap(),
            token
        );
        // Its file is gone, or has the token of another.
        let ann = list.add("ann").unwrap();
        for known in [None, Some(ann.clone()), Some(token.clone())] {
            let new = list.keep_or_renew_owner_token(known).unwrap();
            assert_eq!(admitted(&list, &new), Ok(OWNER_NUMBER));
            assert!(new != ann && new != token);
            assert_eq!(admitted(&list, &token), Err(Denied::Wrong));
        }
        list.revoke(OWNER).unwrap();
        let new = list.keep_or_renew_owner_token(None).unwrap();
        assert!(admitted(&list, &new).is_ok_and(|new| new != OWNER_NUMBER));
        assert_eq!(
            list.keep_or_renew_owner_token(Some(new.clone())).unwrap(),
            new
        );
    }

    #[test]
    fn names_are_names_and_are_given_once() {
        let mut list = Participants::default();
        let long = "a".repeat(65);
        let wrong = ["-x", ".x", "a/b", "a b", "a\n", "\u{1b}[2J", "é", "..", ""];
        for name in wrong.into_iter().chain([long.as_str()]) {
            let added = list.add(name);
            assert!(matches!(added, Err(ChangeError::Name(_))), "{name:?}");
        }
        list.add(&long[..64]).unwrap();
        for taken in ["7", OWNER] {
            list.add(taken).unwrap();
            assert!(matches!(list.add(taken), Err(ChangeError::Taken(_))));
        }
    }

    #[test]
    fn changes_are_made_one_by_one_and_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("participants.json");
        let add = |number| Participants::change(path, |list| list.add(&format!("{number:064}")));
        let tokens: Vec<Token> = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3, 4, 5, 6, 7].map(|number| scope.spawn(move || add(number)));
            threads.map(|thread| thread.join().unwrap().unwrap()).into()
        });
        let mut list = Participants::read(path).unwrap();
        assert_eq!(list.iter().len(), 8, "none was lost");
        let text = fs::read_to_string(path).unwrap();
        for token in &tokens {
            assert!(admitted(&list, token).is_ok());
            assert!(!text.contains(token.secret()));
        }
        // The longest list is read too.
        for number in list.0.len()..PARTICIPANTS_MAX {
            list.add(&format!("{number:064}")).unwrap();
        }
        assert!(matches!(list.add("late"), Err(ChangeError::TooMany)));
        let full = list.clone();
        Participants::change(path, |list| {
            *list = full;
            Ok(())
        })
        .unwrap();
        assert_eq!(Participants::read(path).unwrap(), list);
    }

    #[test]
    fn a_change_that_does_not_end_ends_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("participants.json");
        let add = |name| Participants::change(path, |list| list.add(name));
        let stuck = Claim::begin(path).unwrap();
        let error = add("ann").unwrap_err().to_string();
        let says = |what| assert!(error.contains(what), "{error}");
        says("participants.json is in use");
        says(&std::process::id().to_string());
        drop(stuck);
        add("ann").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_else_is_taken_for_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("participants.json");
        assert_eq!(Participants::read(&path).unwrap(), Participants::default());
        for name in ["ann", "bob"] {
            Participants::change(&path, |list| list.add(name)).unwrap();
        }
        let good: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut wrong = good.clone();
        wrong["format"] = 1.into();
        let mut all = vec![wrong, good["participants"].clone()];
        for (field, value) in [
            ("number", good["participants"][1]["number"].clone()),
            ("number", NUMBER_OF_NOBODY.into()),
            ("token", good["participants"][1]["token"].clone()),
            ("token", "7".into()),
            ("name", "bob".into()),
            ("name", "../bob".into()),
        ] {
            let mut wrong = good.clone();
            wrong["participants"][0][field] = value;
            all.push(wrong);
        }
        for wrong in all {
            private::write(&path, &wrong).unwrap();
            assert!(Participants::read(&path).is_err(), "{wrong}");
            let changed = Participants::change(&path, |list| list.add("new"));
            assert!(matches!(changed, Err(ChangeError::File(_))), "{wrong}");
        }
        private::write(&path, &good).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let exposed = Participants::read(&path);
        assert!(matches!(exposed, Err(FileError::Exposed { .. })));
    }
}
