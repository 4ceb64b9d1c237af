//! How to reach a coordinator: its address, its certificate, the token.

use std::path::Path;

use anyhow::Context;
use chomp_access::{Access, local};

use crate::args::ReachArgs;

/// The arguments do not say which coordinator is meant.
#[derive(Debug, thiserror::Error)]
#[error("which coordinator? Give --access FILE, or --coordinator URL")]
pub(crate) struct NoCoordinator;

/// What the arguments say about a coordinator. Without an access file, that of a coordinator of this
/// user on this machine is looked for.
pub(crate) fn access(args: &ReachArgs) -> anyhow::Result<Access> {
    match (&args.access, &args.coordinator) {
        (Some(file), url) => {
            let mut access = Access::read(file)?;
            if let Some(url) = url {
                access.coordinator.clone_from(url);
            }
            Ok(access)
        }
        (None, Some(url)) => local_access(url),
        (None, None) => Err(NoCoordinator.into()),
    }
}

/// The access to a coordinator of which only the address is known.
pub(crate) fn local_access(url: &str) -> anyhow::Result<Access> {
    let file = local::folder().and_then(|folder| local::file(&folder, url));
    let is_there = |file: &Path| {
        let is_there = file.try_exists();
        is_there.with_context(|| format!("cannot look for {}", file.display()))
    };
    let found = match file {
        Some(file) if is_there(&file)? => Some(Access::read(&file)?),
        _ => None,
    };
    let (ca, token) = found.map_or((None, None), |found| (found.ca, found.token));
    Ok(Access {
        coordinator: url.to_owned(),
        ca,
        token,
    })
}
