//! Chooses the exit code for an error. Only this module knows all errors.

use std::error::Error;

use chomp_access::participants::ChangeError;
use chomp_boxes::ThinError;
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
use chomp_store::{FaultKind, StorageError, StoreError};
use chomp_table::format::FormatError;
use chomp_table::position::PositionError;
use chomp_table::reader::TableError;
use chomp_verify::CheckError;
use chomp_worker::{ClientError, WorkerError};

use crate::exit::{CodedError, Exit};

/// The exit code for an error, from the first of its causes that says more than "failed".
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Failed)
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<Exit> {
    fn of<E: Error + 'static>(
        cause: &(dyn Error + 'static),
        code: impl FnOnce(&E) -> Option<Exit>,
    ) -> Option<Exit> {
        cause.downcast_ref().and_then(code)
    }
    let codes = [
        of(cause, of_store),
        of(cause, of_table),
        of(cause, of_download),
        of(cause, of_export),
        of(cause, of_job),
        of(cause, of_box),
        of(cause, |error| match error {
            StartError::Store(error) => of_store(error),
            StartError::Plan(_) => Some(Exit::Refused),
            _ => None,
        }),
        of(cause, |error| match error {
            WorkerError::Client(
                ClientError::Unreachable { .. } | ClientError::Certificate { .. },
            ) => Some(Exit::Unreachable),
            WorkerError::Client(ClientError::Refused { .. }) => Some(Exit::Refused),
            WorkerError::Memory { .. } => Some(Exit::Usage),
            WorkerError::Store(error) => of_storage(error),
            _ => None,
        }),
        of(cause, |error| match error {
            // No table has positions of so many bits or tiles.
            PositionError::TooLarge { .. } | PositionError::TooManyTiles(_) => Some(Exit::Refused),
            _ => Some(Exit::Usage),
        }),
        of(cause, |error| match error {
            CheckError::Table(error) => of_table(error),
            CheckError::Wrong(_) => Some(Exit::Damaged),
            CheckError::Stopped => Some(Exit::Stopped),
        }),
        of(cause, |error| match error {
            BuildError::OtherCount { .. }
            | BuildError::OtherFingerprint(_)
            | BuildError::OtherTable { .. } => Some(Exit::Damaged),
            _ => None,
        }),
        of(cause, |error| match error {
            FileError::InUse { .. } | FileError::Exists { .. } => Some(Exit::Refused),
            FileError::Failed { .. } => None,
        }),
        of(cause, |error| match error {
            ChangeError::Name(_) => Some(Exit::Usage),
            ChangeError::File(_) => None,
            _ => Some(Exit::Refused),
        }),
        of(cause, |error| match error {
            OpenError::InUse { .. } | OpenError::Bucket { .. } => Some(Exit::Refused),
            OpenError::File(_) => None,
        }),
        of(cause, |_: &PlanError| Some(Exit::Refused)),
        of(cause, |error: &CodedError| Some(error.code)),
        of(cause, |_: &GameError| Some(Exit::Usage)),
    ];
    codes.into_iter().find_map(|code| code)
}

fn of_job(error: &JobError) -> Option<Exit> {
    match error {
        JobError::Store(error) | JobError::Publish(PublishError::Store(error)) => of_store(error),
        JobError::Publish(_) => Some(Exit::Damaged),
        // The next cause is the error of a worker.
        JobError::Referee(_) => None,
        JobError::Stopped(_) => Some(Exit::Failed),
    }
}

fn of_box(error: &ThinError) -> Option<Exit> {
    match error {
        ThinError::Size { .. } => Some(Exit::Usage),
        ThinError::Rows { .. }
        | ThinError::Few { .. }
        | ThinError::File(FileError::InUse { .. }) => Some(Exit::Refused),
        ThinError::Damaged { .. } => Some(Exit::Damaged),
        ThinError::File(_) => None,
    }
}

fn of_table(error: &TableError) -> Option<Exit> {
    match error {
        TableError::Damaged { .. }
        | TableError::Contradiction { .. }
        | TableError::Openings { .. } => Some(Exit::Damaged),
        TableError::Newer { .. }
        | TableError::Beyond { .. }
        | TableError::BeyondTiles { .. }
        | TableError::NotInShard { .. } => Some(Exit::Refused),
        // The reader of a table on a server wraps the error of the download.
        TableError::Io { source, .. } => {
            let cause = source.get_ref()?;
            of_download(cause.downcast_ref()?)
        }
        TableError::NotFound { .. } | TableError::NotAShard { .. } => None,
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
        | DownloadError::Open(OpenError::InUse { .. })
        | DownloadError::Manifest {
            source: FormatError::Newer { .. },
            ..
        } => Some(Exit::Refused),
        DownloadError::Damaged { .. }
        | DownloadError::Wrong { .. }
        | DownloadError::Manifest { .. } => Some(Exit::Damaged),
        DownloadError::Table(error) => of_table(error),
        DownloadError::Url { .. }
        | DownloadError::Location(_)
        | DownloadError::Open(OpenError::Bucket { .. }) => Some(Exit::Usage),
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
        | ExportError::LeftOut(_) => Some(Exit::Usage),
        ExportError::Stopped => Some(Exit::Stopped),
        _ => None,
    }
}

fn of_store(error: &StoreError) -> Option<Exit> {
    match error {
        StoreError::Damaged { .. } => Some(Exit::Damaged),
        StoreError::Storage(error) => of_storage(error),
        StoreError::Refused(_) | StoreError::Fenced { .. } => Some(Exit::Refused),
        StoreError::Lost { .. } => None,
    }
}

fn of_storage(error: &StorageError) -> Option<Exit> {
    if error.is(FaultKind::Damage) {
        return Some(Exit::Damaged);
    }
    error.is_refusal().then_some(Exit::Refused)
}
