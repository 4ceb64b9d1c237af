//! How to reach a coordinator or a server of tables: its address, its certificate, the token.

use std::path::Path;

use anyhow::Context;
use chomp_access::{Access, local};
use chomp_download::{DownloadError, Reach, ServerPatience};
use chomp_store::location::StoreLocation;
use reqwest::Url;

use crate::TestOverrides;
use crate::exit::{Exit, usage};
use crate::flags::ReachArgs;
use crate::{progress, status};

/// Without `--access`, uses the access file that a coordinator of this user has left on this machine, if there is one.
pub(crate) fn coordinator(args: &ReachArgs) -> anyhow::Result<Access> {
    match (&args.access, &args.coordinator) {
        (Some(file), url) => {
            let mut access = Access::read(file)?;
            if let Some(url) = url {
                access.coordinator.clone_from(url);
            }
            Ok(access)
        }
        (None, Some(url)) => access_by_url(url),
        (None, None) => Err(usage(
            "which coordinator? Give --access FILE, or --coordinator URL",
        )),
    }
}

/// Finished tables are open to everybody, so no token is sent.
pub(crate) fn reach_of_tables(
    from: &str,
    access: Option<&Path>,
    overrides: TestOverrides,
) -> anyhow::Result<Reach> {
    let ca = match access {
        _ if StoreLocation::is_of_bucket(from) => None,
        Some(file) => Access::read(file)?.ca,
        None => access_by_url(from)?.ca,
    };
    Ok(Reach {
        from: from.to_owned(),
        ca,
        token: None,
        patience: ServerPatience::USUAL.hastened(overrides.limit_haste),
    })
}

/// Why there is no table at an address: the job that computes it may not have published it yet.
pub(crate) async fn explain(
    error: DownloadError,
    reach: &Reach,
    access: Option<&Path>,
) -> anyhow::Error {
    let origin = Url::parse(&reach.from).map(|url| url.origin().ascii_serialization());
    let (DownloadError::NoTable { .. }, Ok(origin)) = (&error, origin) else {
        return error.into();
    };
    let known = access.map_or_else(|| access_by_url(&origin), |file| Ok(Access::read(file)?));
    let Some(token) = known.ok().and_then(|access| access.token) else {
        return error.into();
    };
    let coordinator = Access {
        coordinator: origin,
        ca: reach.ca.clone(),
        token: Some(token),
    };
    match status::ask(&coordinator, reach.patience).await {
        Ok(status) => {
            let (from, bits) = (&reach.from, status.bits);
            let done = progress::steps(status.done, 100);
            Exit::Failed.error(format!(
                "there is no table at {from} yet: the job of {bits} bits there has done {done} %, {} of {} ranges; \
                 `chomp status` says when the table will be there",
                status.ranges_done, status.ranges
            ))
        }
        Err(_) => error.into(),
    }
}

/// The access to the coordinator at `url`: certificate and token are from the access file that it left on this machine,
/// if there is one.
pub(crate) fn access_by_url(url: &str) -> anyhow::Result<Access> {
    let file = local::folder().and_then(|folder| local::file(&folder, url));
    let (ca, token) = match file {
        Some(file) if is_there(&file)? => {
            let found = Access::read(&file)?;
            (found.ca, found.token)
        }
        _ => (None, None),
    };
    let coordinator = match &ca {
        Some(_) => encrypted(url),
        None => url.to_owned(),
    };
    Ok(Access {
        coordinator,
        ca,
        token,
    })
}

pub(crate) fn is_there(file: &Path) -> anyhow::Result<bool> {
    let is_there = file.try_exists();
    is_there.with_context(|| format!("cannot look for {}", file.display()))
}

/// Always with https: the user may write http, but nothing is to be sent in the clear.
fn encrypted(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => format!("https://{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_certificate_is_never_spoken_to_in_the_clear() {
        for (written, meant) in [
            ("http://127.0.0.1:7171", "https://127.0.0.1:7171"),
            ("HTTP://localhost:7171/", "https://localhost:7171/"),
            ("https://localhost:7171", "https://localhost:7171"),
        ] {
            assert_eq!(encrypted(written), meant);
        }
    }
}
