//! Chooses the exit code for an error. Only this module knows all errors.

use chomp_access::participants::ChangeError;
use chomp_boxes::ThinError;
use chomp_coordinator::arbiter::ArbiterError;
use chomp_coordinator::job::JobError;
use chomp_coordinator::publish::PublishError;
use chomp_coordinator::server::StartError;
use chomp_download::DownloadError;
use chomp_durable_files::FileError;
use chomp_export::ExportError;
use chomp_games::GameError;
use chomp_grundy::BuildError;
use chomp_plan::PlanError;
use chomp_store::objects::OpenError;
use chomp_store::{StorageError, StorageProblem, StoreError};
use chomp_table::format::FormatError;
use chomp_table::position::PositionError;
use chomp_table::reader::TableError;
use chomp_verify::CheckError;
use chomp_worker::ClientError;
use chomp_worker::WorkerError;

use crate::exit::{Exit, Usage};
use crate::status::AskError;

/// The exit code for an error, from the first of its causes that says more than "failed".
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Failed)
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref() {
        return of_store(error);
    }
    match cause.downcast_ref() {
        Some(JobError::Store(error) | JobError::Publish(PublishError::Store(error))) => {
            return of_store(error);
        }
        Some(JobError::Arbiter(ArbiterError::Store(error))) => return of_store(error),
        Some(JobError::Publish(_) | JobError::Arbiter(_)) => return Some(Exit::Damaged),
        Some(JobError::Stopped(_)) => return Some(Exit::Failed),
        None => {}
    }
    match cause.downcast_ref() {
        Some(StartError::Store(error)) => return of_store(error),
        Some(StartError::Plan(_)) => return Some(Exit::Refused),
        _ => {}
    }
    if let Some(error) = cause.downcast_ref() {
        return of_table(error);
    }
    match cause.downcast_ref() {
        Some(WorkerError::Client(
            ClientError::Unreachable { .. } | ClientError::Certificate { .. },
        )) => return Some(Exit::Unreachable),
        Some(WorkerError::Client(ClientError::Refused { .. })) => return Some(Exit::Refused),
        Some(WorkerError::Memory { .. }) => return Some(Exit::Usage),
        Some(WorkerError::Store(error)) => return of_storage(error),
        _ => {}
    }
    match cause.downcast_ref() {
        // More than any table has.
        Some(PositionError::TooLarge { .. } | PositionError::TooManyTiles(_)) => {
            return Some(Exit::Refused);
        }
        Some(_) => return Some(Exit::Usage),
        None => {}
    }
    if cause.is::<PlanError>() {
        return Some(Exit::Refused);
    }
    match cause.downcast_ref() {
        Some(CheckError::Table(error)) => return of_table(error),
        Some(CheckError::Wrong(_)) => return Some(Exit::Damaged),
        Some(CheckError::Stopped) => return Some(Exit::Stopped),
        None => {}
    }
    if let Some(BuildError::OtherCount { .. } | BuildError::OtherTable { .. }) =
        cause.downcast_ref()
    {
        return Some(Exit::Damaged);
    }
    match cause.downcast_ref() {
        Some(ThinError::Size { .. }) => return Some(Exit::Usage),
        Some(ThinError::Rows { .. } | ThinError::File(FileError::InUse { .. })) => {
            return Some(Exit::Refused);
        }
        Some(ThinError::Damaged { .. }) => return Some(Exit::Damaged),
        _ => {}
    }
    if let Some(FileError::InUse { .. } | FileError::Exists { .. }) = cause.downcast_ref() {
        return Some(Exit::Refused);
    }
    match cause.downcast_ref() {
        Some(ChangeError::Name(_)) => return Some(Exit::Usage),
        Some(ChangeError::Taken(_) | ChangeError::Unknown(_) | ChangeError::TooMany) => {
            return Some(Exit::Refused);
        }
        _ => {}
    }
    if cause.is::<Usage>() || cause.is::<GameError>() {
        return Some(Exit::Usage);
    }
    match cause.downcast_ref() {
        Some(AskError::Unreachable { .. } | AskError::Strange { .. }) => {
            return Some(Exit::Unreachable);
        }
        Some(AskError::Refused { .. }) => return Some(Exit::Refused),
        None => {}
    }
    if let Some(error) = cause.downcast_ref() {
        return of_download(error);
    }
    if let Some(error) = cause.downcast_ref() {
        return of_export(error);
    }
    match cause.downcast_ref()? {
        OpenError::InUse { .. } | OpenError::Bucket { .. } => Some(Exit::Refused),
        OpenError::File(_) => None,
    }
}

fn of_table(error: &TableError) -> Option<Exit> {
    match error {
        TableError::Damaged { .. } | TableError::Openings { .. } => Some(Exit::Damaged),
        TableError::Newer { .. }
        | TableError::Beyond { .. }
        | TableError::BeyondTiles { .. }
        | TableError::NotInShard { .. } => Some(Exit::Refused),
        // Why a table on a server could not be read.
        TableError::Io { source, .. } => {
            let cause = source.get_ref()?;
            of_download(cause.downcast_ref()?)
        }
        TableError::NotFound { .. } => None,
    }
}

fn of_download(error: &DownloadError) -> Option<Exit> {
    match error {
        DownloadError::Unreachable { .. }
        | DownloadError::Certificate { .. }
        | DownloadError::Strange { .. }
        | DownloadError::Storage(_) => Some(Exit::Unreachable),
        DownloadError::Refused { .. }
        | DownloadError::OtherTable { .. }
        | DownloadError::InUse { .. }
        | DownloadError::Manifest {
            source: FormatError::Newer { .. },
            ..
        } => Some(Exit::Refused),
        DownloadError::Damaged { .. }
        | DownloadError::Wrong { .. }
        | DownloadError::Manifest { .. } => Some(Exit::Damaged),
        DownloadError::Table(error) => of_table(error),
        DownloadError::Url { .. } | DownloadError::Location(_) | DownloadError::Bucket(_) => {
            Some(Exit::Usage)
        }
        DownloadError::Stopped => Some(Exit::Stopped),
        _ => None,
    }
}

fn of_export(error: &ExportError) -> Option<Exit> {
    match error {
        ExportError::Table(error) => of_table(error),
        ExportError::Beyond { .. }
        | ExportError::BeyondTiles { .. }
        | ExportError::Memory { .. }
        | ExportError::Unsuited { .. }
        | ExportError::WithoutParquet => Some(Exit::Usage),
        ExportError::Stopped => Some(Exit::Stopped),
        _ => None,
    }
}

fn of_store(error: &StoreError) -> Option<Exit> {
    match error {
        StoreError::Damaged { .. } => Some(Exit::Damaged),
        StoreError::Storage(error) => of_storage(error),
        StoreError::Newer { .. }
        | StoreError::Older { .. }
        | StoreError::Values { .. }
        | StoreError::OtherRangeBits { .. }
        | StoreError::InOrder { .. }
        | StoreError::Fenced { .. } => Some(Exit::Refused),
        _ => None,
    }
}

fn of_storage(error: &StorageError) -> Option<Exit> {
    match error.problem {
        StorageProblem::Damaged => Some(Exit::Damaged),
        _ => error.is_refusal().then_some(Exit::Refused),
    }
}
