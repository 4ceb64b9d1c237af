//! `chomp site`: a finished table as a folder of plain files, with pages to play and explore, for any web space.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Context;
use bytesize::ByteSize;
use chomp_durable_files::{make_folders, put, read_one_past};
use chomp_export::lookup::{LOOKUP_BITS_MAX, write_lookup_files};
use chomp_export::{ExportError, ExportProgress};
use chomp_plan::forecast::as_f64;
use chomp_serve::plain_files;
use chomp_table::manifest::{
    MANIFEST_BYTES_MAX, MANIFEST_NAME, Manifest, SHA256SUMS_NAME, folder_name,
};
use chomp_table::reader::AnyTable;
use chomp_table::{Digest, Table, TableError};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::exit::{Exit, Interruption, usage};
use crate::flags::{bits, flag, path, size, url};
use crate::progress::{Display, Teller};
use crate::source;
use crate::summary::{Meter, TextReport};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A host needs to answer nothing but whole files: no ranges, no headers, no program. The folder works under \
any path. docs/PUBLISHING.md tells what some hosts can do.

Examples:
  chomp site --table chomp-table --out site
  python3 -m http.server --directory site
  chomp site --out site --without-files https://example.org/chomp/table-40")]
pub(crate) struct SiteArgs {
    /// The directory of the table
    #[arg(long, value_name = "DIR", default_value = crate::flags::TABLE, value_parser = path())]
    pub(crate) table: PathBuf,

    /// The folder to write, which is not there yet
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) out: PathBuf,

    /// Answer about positions of at most this many bits, up to 40 [default: those of the table]
    #[arg(long, value_name = "N", value_parser = bits)]
    pub(crate) bits: Option<u32>,

    /// Leave the shards of the table out, and name the address where they are
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(crate) without_files: Option<String>,

    /// Sort within this much memory, as 4GiB; less is slower
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: ByteSize,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// The permissions of a new folder, before the umask.
const MODE: u32 = 0o777;

#[derive(Debug, Serialize)]
struct Written {
    out: String,
    bits: u32,
    fingerprint: Digest,
    files: u64,
    bytes: u64,
    /// Of the files in which a browser looks positions up.
    lookup_bytes: u64,
    /// Wall time.
    seconds: f64,
}

pub(crate) async fn run(args: SiteArgs, display: &Display) -> anyhow::Result<()> {
    let meter = Meter::start();
    let (json, stop) = (args.json, display.stop_token());
    let written = display.during("exporting", &stop, move |teller| {
        Folder::write(&args, &teller)
    });
    let mut written = written.await?;
    written.seconds = meter.wall().as_secs_f64();
    crate::print_as(json, &written, Written::text)
}

impl Written {
    fn text(&self) -> String {
        let Written {
            out, bits, files, ..
        } = self;
        let mut lines = TextReport::new(format_args!(
            "the positions of at most {bits} bits as plain files"
        ));
        lines.line("fingerprint", self.fingerprint);
        let [bytes, lookup] = [self.bytes, self.lookup_bytes].map(HumanBytes);
        lines.line(
            "size",
            format_args!("{bytes} in {files} files, of which {lookup} are for browsers"),
        );
        lines.line(
            "folder",
            format_args!("{out} (to see it: python3 -m http.server in it)"),
        );
        lines.into_text()
    }
}

/// The folder of the site. It gets its name when it is complete.
struct Folder {
    path: PathBuf,
    files: u64,
    bytes: u64,
}

impl Folder {
    fn write(args: &SiteArgs, teller: &Teller) -> anyhow::Result<Written> {
        let AnyTable::Losing(table) = AnyTable::open(&args.table).map_err(source::explained)?
        else {
            let why = "is a table of Grundy values, and a site is of losing positions";
            return Err(usage(format!("{} {why}", args.table.display())));
        };
        let manifest = table.manifest();
        let most = manifest.bits.min(LOOKUP_BITS_MAX);
        let bits = args.bits.unwrap_or(most);
        if bits > LOOKUP_BITS_MAX {
            return Err(usage(format!(
                "--bits {bits} is too much: positions of at most {LOOKUP_BITS_MAX} bits are laid out"
            )));
        }
        if bits > manifest.bits {
            let (needed, table_bits) = (bits, manifest.bits);
            return Err(ExportError::Beyond { needed, table_bits }.into());
        }
        let out = &args.out;
        if out.symlink_metadata().is_ok() {
            let why = "is there already: remove it, or give another --out";
            return Err(Exit::Refused.error(format!("{} {why}", out.display())));
        }
        let above = chomp_durable_files::folder(out);
        make_folders(above).with_context(|| format!("cannot make {}", above.display()))?;
        let begun = tempfile::Builder::new()
            .prefix(".site.")
            .suffix(".partial")
            .permissions(Permissions::from_mode(MODE))
            .tempdir_in(above)
            .with_context(|| format!("cannot make a folder in {}", above.display()))?;
        let mut folder = Folder {
            path: begun.path().to_owned(),
            files: 0,
            bytes: 0,
        };
        folder.put_pages(args, &table, bits, teller)?;
        if args.without_files.is_none() {
            folder.copy_table(&table, teller)?;
        }
        let before = folder.bytes;
        folder.put_lookup(args, &table, bits, teller)?;
        let lookup_bytes = folder.bytes - before;
        #[expect(
            clippy::disallowed_methods,
            reason = "of folders it overwrites none with files"
        )]
        std::fs::rename(&folder.path, out)
            .with_context(|| format!("cannot name {}", out.display()))?;
        Ok(Written {
            out: out.display().to_string(),
            bits,
            fingerprint: manifest.fingerprints_by_bits[bits as usize],
            files: folder.files,
            bytes: folder.bytes,
            lookup_bytes,
            seconds: 0.0,
        })
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        make_folders(chomp_durable_files::folder(&path))?;
        put(&path, bytes).map_err(io::Error::other)?;
        self.files += 1;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the pages, the data of the table that they need, and a description of the folder.
    fn put_pages(
        &mut self,
        args: &SiteArgs,
        table: &Table,
        bits: u32,
        teller: &Teller,
    ) -> anyhow::Result<()> {
        let manifest = table.manifest();
        let elsewhere = args.without_files.as_deref();
        let all = as_f64(manifest.stored);
        let mut watch = |counted| teller.stage("positions", as_f64(counted) / all);
        let about = about(manifest, bits, elsewhere);
        let files = plain_files(table, &args.table, bits, &about, &mut watch)?;
        for (name, bytes) in files.ok_or(Interruption::Lost)? {
            self.put(&name, &bytes)?;
        }
        self.put("README.md", card(manifest, bits, elsewhere).as_bytes())?;
        Ok(())
    }

    /// Copies the files of the table, and checks each shard.
    fn copy_table(&mut self, table: &Table, teller: &Teller) -> anyhow::Result<()> {
        let manifest = table.manifest();
        for name in [MANIFEST_NAME, SHA256SUMS_NAME] {
            let bytes = read_one_past(&table.folder().join(name), MANIFEST_BYTES_MAX)?;
            self.put(&format!("{}/{name}", folder_name(manifest.bits)), &bytes)?;
        }
        let all = manifest.shards.len() as u64;
        for (done, shard) in (0..).zip(&manifest.shards) {
            if teller
                .stage("shards", as_f64(done) / as_f64(all))
                .is_break()
            {
                return Err(Interruption::Lost.into());
            }
            let path = table.folder().join(&shard.name);
            let bytes = read_one_past(&path, shard.bytes)
                .with_context(|| format!("cannot read {}", path.display()))?;
            if Digest::of(&bytes) != shard.sha256 {
                return Err(TableError::damaged(
                    path,
                    "its SHA-256 is not the one in the manifest".to_owned(),
                )
                .into());
            }
            self.put(
                &format!("{}/{}", folder_name(manifest.bits), shard.name),
                &bytes,
            )?;
        }
        Ok(())
    }

    fn put_lookup(
        &mut self,
        args: &SiteArgs,
        table: &Table,
        bits: u32,
        teller: &Teller,
    ) -> anyhow::Result<()> {
        let mut watch = |progress: ExportProgress| teller.exported(progress);
        let mut put = |name: &str, bytes: &[u8]| self.put(&format!("lookup/{name}"), bytes);
        let found =
            match write_lookup_files(table, bits, args.memory.as_u64(), &mut watch, &mut put) {
                Err(ExportError::Stopped) => return Err(Interruption::Lost.into()),
                found => found?,
            };
        self.put(
            "lookup/lookup.json",
            serde_json::to_string(&found)?.as_bytes(),
        )?;
        Ok(())
    }
}

/// The content of the page about the files.
fn about(manifest: &Manifest, bits: u32, elsewhere: Option<&str>) -> String {
    let row = |name: &str, bytes: &str, sha256: &str| {
        format!(
            "      <tr><td class=\"text\"><a href=\"{{place}}/{name}\">{name}</a></td><td>{bytes}</td>\
             <td class=\"text\"><code>{sha256}</code></td></tr>\n"
        )
    };
    let small = [MANIFEST_NAME, SHA256SUMS_NAME].map(|name| row(name, "", ""));
    let shards = manifest.shards.iter().map(|shard| {
        let bytes = HumanCount(shard.bytes).to_string();
        row(&shard.name, &bytes, &shard.sha256.to_string())
    });
    let rows: String = small.into_iter().chain(shards).collect();
    let text = include_str!("site/files.html").replace("{rows}", &rows);
    filled(&text, manifest, bits, elsewhere)
}

/// The file `README.md`. It begins with the metadata that hosts of data sets read.
fn card(manifest: &Manifest, bits: u32, elsewhere: Option<&str>) -> String {
    // A manifest lists at most 2^38 words.
    let limits = [
        "1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T",
    ];
    let class = manifest.stored.max(1).ilog10().saturating_sub(2) as usize;
    let size = match class {
        0 => "n<1K".to_owned(),
        class => format!("{}<n<{}", limits[class - 1], limits[class]),
    };
    let text = include_str!("site/card.md").replace("{size}", &size);
    filled(&text, manifest, bits, elsewhere)
}

/// Fills in the placeholders of `text`: the facts of the table, the most bits about which the pages answer, and the
/// place of the files of the table.
fn filled(text: &str, manifest: &Manifest, bits: u32, elsewhere: Option<&str>) -> String {
    let [losing, stored] =
        [manifest.losing, manifest.stored].map(|count| HumanCount(count).to_string());
    let folder = folder_name(manifest.bits);
    text.replace("{bits}", &manifest.bits.to_string())
        .replace("{answered}", &bits.to_string())
        .replace("{losing}", &losing)
        .replace("{stored}", &stored)
        .replace("{fingerprint}", &manifest.fingerprint.to_string())
        .replace("{software}", &escaped(&manifest.software))
        .replace("{place}", elsewhere.unwrap_or(&folder))
}

/// Leaves out of a text from elsewhere all characters that a name with a version does not need, so it is safe in HTML
/// and in Markdown.
fn escaped(text: &str) -> String {
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || " .-+".contains(*char);
    text.chars().filter(is_plain).collect()
}
