//! The participants of a table, and which of their credentials are good.
//!
//! The file is a JSON object: `format` (1) and `participants`, a list of objects with `name`, `number`, `serial` and
//! `revoked`. It is private, and stands beside the secrets. The owner of the table is number 0, and is in the list
//! only if its credential was ever renewed.
//!
//! A journal knows participants by number, and whom it does not trust by the serial too. A table may get a new list,
//! whose numbers begin again: its serials come from the clock, so that nobody inherits what somebody else did.
//!
//! Version history: format 1 is the first.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use chomp_durable_files::{failed, folder};
use serde::{Deserialize, Serialize};

use crate::error::FileError;
use crate::issuer::Denied;
use crate::private::{self, PrivateKind};
use crate::token::Holder;

/// The name of the table's owner among the participants.
pub const OWNER: &str = "owner";
/// The most participants of a table.
pub const PARTICIPANTS_MAX: usize = 4096;
/// The longest name of a participant, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

const FORMAT: u32 = 1;
pub(crate) const KIND: PrivateKind = PrivateKind {
    name: "list of participants",
    fields: &["format", "participants"],
    own: true,
    bytes_max: PARTICIPANTS_MAX * 256,
};

/// A participant: it has a credential, or had one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Participant {
    /// The name for people: 1 to [`NAME_BYTES_MAX`] letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// The number by which tokens and journals know it.
    pub number: u32,
    /// The only serial whose token is good.
    pub serial: u32,
    /// Whether that token was taken back too.
    pub revoked: bool,
}

impl Participant {
    /// The only credential of the participant that is good, unless it is revoked.
    pub fn holder(&self) -> Holder {
        Holder {
            number: self.number,
            serial: self.serial,
        }
    }
}

/// Why a list was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The list cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The text is no name.
    #[error(
        "{0:?} is no name for a participant: it has 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` or `-`, and begins \
         with a letter or digit"
    )]
    Name(String),
    /// Somebody has that name.
    #[error("there is a participant {0} already: renew its credential, or choose another name")]
    Taken(String),
    /// Nobody has that name.
    #[error("there is no participant {0}: `chomp access list` shows those that there are")]
    Unknown(String),
    /// There are as many as there may be.
    #[error("a table has at most {PARTICIPANTS_MAX} participants")]
    TooMany,
}

/// The participants of a table, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participants(Vec<Participant>);

impl Default for Participants {
    /// The owner alone.
    fn default() -> Participants {
        Participants(vec![Participant {
            name: OWNER.to_owned(),
            number: Holder::OWNER.number,
            serial: Holder::OWNER.serial,
            revoked: false,
        }])
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileContent {
    format: u32,
    participants: Vec<Participant>,
}

impl Participants {
    /// The participants in the file at `path`; the owner alone if there is no file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is damaged, or can be read by others.
    pub fn read(path: &Path) -> Result<Participants, FileError> {
        match private::read(path, KIND) {
            Ok((content, _)) => Participants::from_content(content, path),
            Err(FileError::Missing { .. }) => Ok(Participants::default()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn from_content(
        content: FileContent,
        path: &Path,
    ) -> Result<Participants, FileError> {
        if content.format != FORMAT {
            let what = format!("the unknown format {}", content.format);
            return Err(KIND.malformed(path, what));
        }
        let list = content.participants;
        let owner = list.first().is_some_and(|first| first.name == OWNER);
        // Nobody ever leaves the list, and nobody renews a credential 2^32 times.
        let mut numbered = list.iter().zip(0..);
        let numbered = numbered.all(|(one, number)| one.number == number && one.serial < u32::MAX);
        let distinct: HashSet<&str> = list.iter().map(|one| one.name.as_str()).collect();
        let named = distinct.len() == list.len() && distinct.into_iter().all(is_name);
        if !owner || !numbered || !named || list.len() > PARTICIPANTS_MAX {
            return Err(KIND.malformed(path, "these are no participants"));
        }
        Ok(Participants(list))
    }

    /// Changes the list in the file at `path`, one process at a time.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written, or `change` fails.
    pub fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Participants) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        let folder = folder(path);
        let lock = File::open(folder).and_then(|folder| {
            folder.lock()?;
            Ok(folder)
        });
        let _lock = lock
            .map_err(failed("lock", folder))
            .map_err(FileError::from)?;
        let mut list = Participants::read(path)?;
        let changed = change(&mut list)?;
        let content = FileContent {
            format: FORMAT,
            participants: list.0,
        };
        let bytes = serde_json::to_vec_pretty(&content).expect("texts always become JSON");
        private::write(path, &bytes)?;
        Ok(changed)
    }

    /// A new participant with its first credential.
    ///
    /// # Errors
    ///
    /// If it is no name, or somebody has it.
    pub fn add(&mut self, name: &str) -> Result<Holder, ChangeError> {
        if !is_name(name) {
            return Err(ChangeError::Name(name.to_owned()));
        }
        if self.of_name(name).is_some() {
            return Err(ChangeError::Taken(name.to_owned()));
        }
        if self.0.len() >= PARTICIPANTS_MAX {
            return Err(ChangeError::TooMany);
        }
        let last = self.0.last().map_or(0, |last| last.number);
        let new = Participant {
            name: name.to_owned(),
            number: last + 1,
            serial: seconds(),
            revoked: false,
        };
        let holder = new.holder();
        self.0.push(new);
        Ok(holder)
    }

    /// Takes the credential of a participant back. What has too few finders without
    /// the participant is computed again.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn revoke(&mut self, name: &str) -> Result<(), ChangeError> {
        self.named(name)?.revoked = true;
        Ok(())
    }

    /// Another credential for a participant, instead of those that it had. A participant that was revoked, or caught
    /// with a wrong result, is trusted again from now on.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn renew(&mut self, name: &str) -> Result<Holder, ChangeError> {
        let participant = self.named(name)?;
        participant.serial = seconds().max(participant.serial + 1);
        participant.revoked = false;
        Ok(participant.holder())
    }

    /// All of them, by number: the owner first.
    pub fn iter(&self) -> impl Iterator<Item = &Participant> {
        self.0.iter()
    }

    /// The one with this number.
    pub fn get(&self, number: u32) -> Option<&Participant> {
        let at = self.0.binary_search_by_key(&number, |one| one.number);
        at.ok().map(|at| &self.0[at])
    }

    /// The one with this name.
    pub fn of_name(&self, name: &str) -> Option<&Participant> {
        self.iter().find(|one| one.name == name)
    }

    /// Accepts a credential that is good.
    ///
    /// # Errors
    ///
    /// If the credential is not good.
    pub fn admit(&self, holder: Holder) -> Result<(), Denied> {
        let known = self.get(holder.number).ok_or(Denied::Revoked)?;
        if known.revoked || known.holder() != holder {
            return Err(Denied::Revoked);
        }
        Ok(())
    }

    /// Whether this credential was given after the list was read.
    pub fn is_older_than(&self, holder: Holder) -> bool {
        let known = self.get(holder.number);
        known.is_none_or(|known| known.serial < holder.serial)
    }

    fn named(&mut self, name: &str) -> Result<&mut Participant, ChangeError> {
        let mut all = self.0.iter_mut();
        let found = all.find(|one| one.name == name);
        found.ok_or_else(|| ChangeError::Unknown(name.to_owned()))
    }
}

/// The seconds since 1970, by the clock; at least 1.
fn seconds() -> u32 {
    #[expect(
        clippy::disallowed_methods,
        reason = "serials only grow, whatever the clock says"
    )]
    let now = SystemTime::now();
    let now = now.duration_since(UNIX_EPOCH);
    now.map_or(1, |now| u32::try_from(now.as_secs()).unwrap_or(1).max(1))
}

/// Whether this may be the name of a participant: names become parts of file names, and are shown in terminals.
fn is_name(name: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(of_name)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn credentials_come_are_renewed_and_go() {
        let mut list = Participants::default();
        assert_eq!(list.admit(Holder::OWNER), Ok(()));
        let ann = list.add("ann").unwrap();
        let bob = list.add("bob.laptop-2").unwrap();
        assert_eq!((ann.number, bob.number), (1, 2));
        assert!(list.admit(ann).is_ok() && list.admit(bob).is_ok());
        list.revoke("ann").unwrap();
        assert_eq!(list.admit(ann), Err(Denied::Revoked));
        assert!(list.admit(bob).is_ok() && list.admit(Holder::OWNER).is_ok());
        let again = list.renew("ann").unwrap();
        assert_eq!(again.number, 1);
        assert!(ann.serial > 0 && again.serial > ann.serial);
        assert!(list.admit(again).is_ok());
        assert_eq!(list.admit(ann), Err(Denied::Revoked), "the stolen one");
        let owner = list.renew(OWNER).unwrap();
        assert!(list.admit(owner).is_ok() && list.admit(Holder::OWNER).is_err());
        let nobody = Holder {
            number: 3,
            serial: 0,
        };
        assert_eq!(list.admit(nobody), Err(Denied::Revoked));
        let later = |number, serial| list.is_older_than(Holder { number, serial });
        assert!(later(3, 0) && later(1, again.serial + 1));
        assert!(!later(1, again.serial) && !later(1, ann.serial));
    }

    #[test]
    fn names_are_names_and_are_given_once() {
        let mut list = Participants::default();
        for name in [
            "",
            "-x",
            ".x",
            "a/b",
            "a b",
            "a\n",
            "\u{1b}[2J",
            "é",
            "..",
            &"a".repeat(65),
        ] {
            assert!(
                matches!(list.add(name), Err(ChangeError::Name(_))),
                "{name:?}"
            );
        }
        list.add(&"a".repeat(64)).unwrap();
        list.add("7").unwrap();
        assert!(matches!(list.add("7"), Err(ChangeError::Taken(_))));
        assert!(matches!(list.add(OWNER), Err(ChangeError::Taken(_))));
        assert!(matches!(
            list.revoke("nobody"),
            Err(ChangeError::Unknown(_))
        ));
        assert!(matches!(list.renew("nobody"), Err(ChangeError::Unknown(_))));
        for number in list.0.len()..PARTICIPANTS_MAX {
            list.add(&format!("p{number}")).unwrap();
        }
        assert!(matches!(list.add("late"), Err(ChangeError::TooMany)));
    }

    #[test]
    fn the_list_is_kept_and_nothing_else_is_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("participants.json");
        assert_eq!(Participants::read(&path).unwrap(), Participants::default());
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let path = path.clone();
                std::thread::spawn(move || {
                    Participants::change(&path, |list| list.add(&format!("p{number}"))).unwrap()
                })
            })
            .collect();
        let numbers = threads
            .into_iter()
            .map(|thread| thread.join().unwrap().number);
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8], "none was lost");
        let list = Participants::read(&path).unwrap();
        assert_eq!(list.iter().count(), 9);

        let mut full = list;
        for number in full.0.len()..PARTICIPANTS_MAX {
            let name = format!("{number:064}");
            full.add(&name).unwrap();
            full.named(&name).unwrap().serial = u32::MAX - 1;
        }
        let whole = folder.path().join("whole.json");
        Participants::change(&whole, |list| {
            list.clone_from(&full);
            Ok(())
        })
        .unwrap();
        assert_eq!(Participants::read(&whole).unwrap(), full);

        let good = fs::read_to_string(&path).unwrap();
        let serial = Participants::read(&path).unwrap().get(3).unwrap().serial;
        let serial = format!("\"serial\": {serial}");
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("\"owner\"", "\"other\""),
            ("\"number\": 3", "\"number\": 2"),
            ("\"number\": 8", "\"number\": 4294967295"),
            (&serial, "\"serial\": 4294967295"),
            ("\"p0\"", "\"../p0\""),
            ("\"p0\"", "\"p1\""),
            ("{", "["),
        ] {
            assert!(good.contains(from), "{from}");
            private::write(&path, good.replace(from, to).as_bytes()).unwrap();
            assert!(Participants::read(&path).is_err(), "{to}");
            let changed = Participants::change(&path, |list| list.add("new"));
            assert!(matches!(changed, Err(ChangeError::File(_))), "{to}");
        }
        private::write(&path, good.as_bytes()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            Participants::read(&path),
            Err(FileError::Exposed { .. })
        ));
    }
}
