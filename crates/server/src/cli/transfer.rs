//! `ringtrue backup`, `export` and `import`: copy the configured database.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use ringtrue_client::{Progress, printer};
use ringtrue_engine::ports::{clock::Clock, store::StoreError};
use ringtrue_store::{BackupError, BackupProgress, ExportOptions, TransferError, TransferProgress};
use serde_json::json;
use tempfile::NamedTempFile;

use super::{
    arguments::{BackupArguments, ExportArguments, ImportArguments},
    context::{CommandContext, database_clock, open_keys, open_store},
    error::CliError,
};

/// File name that stands for standard input or output.
const STANDARD_STREAM: &str = "-";

fn progress_reporter() -> impl FnMut(TransferProgress) + Send + 'static {
    let mut progress = Progress::start();
    move |TransferProgress { table, number, total, rows, is_complete }| {
        let done = if is_complete { number } else { number - 1 };
        progress.show_bar(done, total, &format!("tables; {table}: {rows} rows"));
        if is_complete {
            progress.print_line_unless_terminal(&format!("{table}: {rows} rows"));
        } else {
            progress.print_occasionally(|| format!("{table}: {rows} rows so far"));
        }
    }
}

/// Copies the SQLite database of a running deployment.
pub(super) async fn backup(context: &CommandContext, arguments: &BackupArguments) -> Result<(), CliError> {
    let url = context.config()?.store.url;
    let mut progress = Progress::start();
    let report = move |BackupProgress { copied_pages, total_pages }| {
        progress.show_bar(copied_pages, total_pages, "pages");
        progress.print_occasionally(|| format!("{copied_pages} of {total_pages} pages copied"));
    };
    let bytes = ringtrue_store::backup(&url, &arguments.file, report).await.map_err(|error| match error {
        BackupError::Store(error) => CliError::Store(error),
        BackupError::NotSqlite => CliError::failed(
            format!("{url}: `ringtrue backup` copies SQLite databases only"),
            "Use PostgreSQL's own tools: `pg_basebackup` with WAL archiving, to restore any point in time, or `pg_dump`. \
             See docs/backup.md.",
        ),
        BackupError::Empty => {
            CliError::failed(format!("{url}: the database is empty"), "Check `store.url`. Nothing was written.")
        }
        BackupError::Exists { .. } => {
            CliError::failed(error.to_string(), "A backup never replaces a file: choose another name.")
        }
        BackupError::Locked | BackupError::File { .. } => {
            CliError::failed(error.to_string(), "Nothing was written. Check the directory and its free space.")
        }
    })?;
    context.printer.print_record(vec![
        ("file", json!(arguments.file.display().to_string())),
        ("bytes", json!(bytes)),
        ("database", json!(url.to_string())),
    ])?;
    printer::print_note(
        "The master key and the configuration are not in the file. Without the master key, the backup is useless: keep \
         a copy of it elsewhere.",
    );
    Ok(())
}

/// Writes the whole deployment to a file, for `ringtrue import`.
pub(super) async fn export(context: &CommandContext, arguments: &ExportArguments) -> Result<(), CliError> {
    let config = context.config()?;
    let now = database_clock(&*open_store(&config).await?).await?.now();
    let options = ExportOptions { now, allow_running_servers: arguments.online };
    let url = &config.store.url;
    if arguments.file == Path::new(STANDARD_STREAM) {
        let rows = ringtrue_store::export(url, options, BufWriter::new(io::stdout()), progress_reporter()).await;
        printer::print_note(&format!("Exported {} rows.", rows.map_err(transfer_error)?));
        return Ok(());
    }
    let file = NewFile::create(&arguments.file)?;
    let rows =
        ringtrue_store::export(url, options, file.writer()?, progress_reporter()).await.map_err(transfer_error)?;
    let bytes = file.publish()?;
    context.printer.print_record(vec![
        ("file", json!(arguments.file.display().to_string())),
        ("bytes", json!(bytes)),
        ("rows", json!(rows)),
    ])?;
    printer::print_note(
        "The file is as sensitive as the database. Once it is imported, do not start servers on the old database again.",
    );
    Ok(())
}

/// Reads a deployment from a file into an empty database.
pub(super) async fn import(context: &CommandContext, arguments: &ImportArguments) -> Result<(), CliError> {
    let config = context.config()?;
    let master = context.master_key(&config)?;
    // Fails early if the database is unreachable or not migrated.
    drop(open_store(&config).await?);
    let url = &config.store.url;
    let imported = if arguments.file == Path::new(STANDARD_STREAM) {
        ringtrue_store::import(url, BufReader::new(io::stdin()), progress_reporter()).await
    } else {
        let file = File::open(&arguments.file).map_err(|error| unreadable(&arguments.file, &error))?;
        ringtrue_store::import(url, BufReader::new(file), progress_reporter()).await
    };
    let rows = imported.map_err(transfer_error)?;
    context.printer.print_record(vec![("rows", json!(rows)), ("database", json!(url.to_string()))])?;
    printer::print_note("Start servers on this database only: do not start servers on the old one again.");
    // The import is complete, but servers cannot use the database if the configured master key is not the old
    // deployment's.
    if let Err(error) = open_keys(&*open_store(&config).await?, &master).await {
        printer::print_note("Configure the old deployment's master key. You do not have to import again.");
        return Err(error);
    }
    Ok(())
}

fn transfer_error(error: TransferError) -> CliError {
    match error {
        TransferError::Store(error) => CliError::Store(error),
        TransferError::SchemaMismatch => CliError::Store(StoreError::Refused(error.to_string())),
        TransferError::ServersRunning { .. } => CliError::failed(
            error.to_string(),
            "A server that was killed counts as running for 5 s. `--online` exports anyway, for a rehearsal.",
        ),
        TransferError::NotAnExport
        | TransferError::Damaged { .. }
        | TransferError::Truncated { .. }
        | TransferError::WrongChecksum => {
            CliError::failed(error.to_string(), "Nothing was imported. Copy the file again, or repeat the export.")
        }
        TransferError::File(error) if error.kind() == io::ErrorKind::BrokenPipe => error.into(),
        TransferError::File(_)
        | TransferError::NotEmpty { .. }
        | TransferError::UnsupportedVersion { .. }
        | TransferError::OtherSchema { .. }
        | TransferError::Column { .. } => CliError::failed(error.to_string(), "Nothing was exported or imported."),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("{}: {error}", path.display()), "Nothing was exported or imported.")
}

/// An output file that has a temporary name until it is complete. Only its owner can read it.
struct NewFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl NewFile {
    fn create(path: &Path) -> Result<Self, CliError> {
        let exists = path.try_exists().map_err(|error| unreadable(path, &error))?;
        if exists {
            return Err(already_exists_error(path));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = tempfile::Builder::new().prefix(".ringtrue-export-").tempfile_in(folder);
        Ok(NewFile { path: path.to_owned(), temporary: temporary.map_err(|error| unreadable(path, &error))? })
    }

    fn writer(&self) -> Result<impl Write + Send + use<>, CliError> {
        Ok(BufWriter::new(self.temporary.as_file().try_clone()?))
    }

    /// Gives the complete file its name. Returns its size in bytes.
    fn publish(self) -> Result<u64, CliError> {
        let file = self.temporary.as_file();
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        self.temporary.persist_noclobber(&self.path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => already_exists_error(&self.path),
            _ => unreadable(&self.path, &error.error),
        })?;
        Ok(bytes)
    }
}

fn already_exists_error(path: &Path) -> CliError {
    CliError::failed(format!("{} exists already", path.display()), "An export never replaces a file.")
}
