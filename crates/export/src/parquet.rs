//! Apache Parquet, compressed by zstd: a row for each position, in row groups of 2^20.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `word` | unsigned, 64 bits | the word; rows are sorted by it |
//! | `bits` | unsigned, 8 bits | first row + number of rows |
//! | `area` | unsigned, 16 bits | the number of cells |
//! | `rows` | list of unsigned, 8 bits | the lengths of the rows, longest first |
//!
//! Nothing is ever null. Words are kept as differences, which takes little more than a byte each.

use std::io::{self, Write};
use std::sync::Arc;

use chomp_table::reader::TableName;
use chomp_table::{Digest, Word};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::rows::{RequestedRows, Row};
use crate::text::row_lengths;
use crate::words::Words;
use crate::{ExportError, Format, Pieces};

const SCHEMA: &str = "message losing_positions {
    required int64 word (INTEGER(64, false));
    required int32 bits (INTEGER(8, false));
    required int32 area (INTEGER(16, false));
    required group rows (LIST) {
        repeated group list {
            required int32 element (INTEGER(8, false));
        }
    }
}";

const VALUES_SCHEMA: &str = "message values {
    required int32 tiles (INTEGER(8, false));
    required int32 rank (INTEGER(32, false));
    required group rows (LIST) {
        repeated group list {
            required int32 element (INTEGER(8, false));
        }
    }
    required int32 value (INTEGER(8, false));
}";

/// The rows of a row group. The memory holds their words and their compressed columns.
const GROUP_ROWS: usize = 1 << 20;
/// The rows of a row group of values, whose positions take more memory.
const VALUES_GROUP_ROWS: usize = 1 << 17;
/// The most row groups of a Parquet file.
const GROUPS_MAX: u64 = 32_767;
/// How many rows are split into columns at a time.
const BATCH_ROWS: usize = 1 << 13;

const ZSTD_LEVEL: i32 = 1;

/// The values of a batch of a column, and in a column of lists for each value 0 if it begins a list, else 1.
type ColumnBatch<T> = (Vec<T>, Option<Vec<i16>>);

fn write_group<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    words: &[u64],
) -> Result<(), ParquetError> {
    let bits = |&word: &u64| Word::new(word).bits().cast_signed();
    let area = |&word: &u64| row_lengths(word).map(i32::from).sum();
    let mut group = file.next_row_group()?;
    write_column::<Int64Type, W, _>(&mut group, words, |word| word.cast_signed())?;
    write_column::<Int32Type, W, _>(&mut group, words, bits)?;
    write_column::<Int32Type, W, _>(&mut group, words, area)?;
    write_lists(&mut group, words, |&word, list| {
        list.extend(row_lengths(word).map(i32::from));
    })?;
    group.close().map(drop)
}

fn write_values_group<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    rows: &[Row],
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    write_column::<Int32Type, W, _>(&mut group, rows, |row| row.tiles.into())?;
    write_column::<Int32Type, W, _>(&mut group, rows, |row| row.rank.cast_signed())?;
    write_lists(&mut group, rows, |row, list| {
        list.extend(row.position.rows().iter().map(|row| row.cast_signed()));
    })?;
    write_column::<Int32Type, W, _>(&mut group, rows, |row| row.value.into())?;
    group.close().map(drop)
}

/// Writes the next column of a row group, with one value for each row.
fn write_column<T: DataType, W: Write + Send, E>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[E],
    value: impl Fn(&E) -> T::T,
) -> Result<(), ParquetError> {
    write_batches::<T, W, E>(group, rows, |rows| {
        (rows.iter().map(&value).collect(), None)
    })
}

/// Writes the next column of a row group, with the list that `list` appends for each row. No list is empty.
fn write_lists<W: Write + Send, E>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[E],
    list: impl Fn(&E, &mut Vec<i32>),
) -> Result<(), ParquetError> {
    write_batches::<Int32Type, W, E>(group, rows, |rows| {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        for row in rows {
            levels.push(0);
            list(row, &mut values);
            levels.resize(values.len(), 1);
        }
        (values, Some(levels))
    })
}

fn write_batches<T: DataType, W: Write + Send, E>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[E],
    batch_of: impl Fn(&[E]) -> ColumnBatch<T::T>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.expect("the schema has as many columns as are written");
    let typed = column.typed::<T>();
    for rows in rows.chunks(BATCH_ROWS) {
        let (values, levels) = batch_of(rows);
        // No list is empty: every position has a row.
        let present = levels.as_ref().map(|levels| vec![1; levels.len()]);
        typed.write_batch(&values, present.as_deref(), levels.as_deref())?;
    }
    column.close()
}

/// Rows ascend by the first `sorted` columns, of which the last, `word`, is kept as differences. `origin` is metadata.
fn properties(sorted: i32, word: &str, origin: [(&str, String); 2]) -> WriterProperties {
    let of = |(name, value): (&str, String)| KeyValue::new(name.to_owned(), value);
    let origin = origin.into_iter().map(of).collect();
    let word = ColumnPath::from(word);
    let sorted = (0..sorted).map(|column_idx| SortingColumn {
        column_idx,
        descending: false,
        nulls_first: false,
    });
    let zstd = ZstdLevel::try_new(ZSTD_LEVEL).expect("zstd has this level");
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(zstd))
        .set_column_dictionary_enabled(word.clone(), false)
        .set_column_encoding(word, Encoding::DELTA_BINARY_PACKED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_sorting_columns(Some(sorted.collect()))
        .set_key_value_metadata(Some(origin))
        .build()
}

pub(crate) fn write<W: Write + Send>(
    words: &mut Words<'_>,
    out: &mut W,
) -> Result<u64, ExportError> {
    if words.count_max() > GROUPS_MAX * GROUP_ROWS as u64 {
        return Err(ExportError::Unsuited {
            format: Format::Parquet,
            what: "has at most 34,358,689,792 positions in a file: ask for less with --bits",
        });
    }
    let manifest = words.table.manifest();
    let table = TableName::Losing(manifest.bits);
    let properties = properties(1, "word", of_table(table, manifest.fingerprint));
    let layout = (SCHEMA, properties, GROUP_ROWS);
    write_groups(out, layout, write_group, words)
}

pub(crate) fn write_values<W: Write + Send>(
    rows: &mut RequestedRows<'_>,
    out: &mut W,
) -> Result<u64, ExportError> {
    let manifest = rows.table.manifest();
    let table = TableName::Values(manifest.tiles);
    let properties = properties(2, "rank", of_table(table, manifest.fingerprint));
    let layout = (VALUES_SCHEMA, properties, VALUES_GROUP_ROWS);
    write_groups(out, layout, write_values_group, rows)
}

/// Writes positions of few rows, which have this digest together.
pub(crate) fn write_few<W: Write + Send>(
    (rows, digest): (usize, Digest),
    positions: &mut impl Pieces<Item = [u32; 5]>,
    out: &mut W,
) -> Result<u64, ExportError> {
    let columns = (1..=rows).map(|row| format!("required int32 row_{row} (INTEGER(32, false));"));
    let schema = format!(
        "message losing_positions {{ {} }}",
        columns.collect::<String>()
    );
    let sorted = i32::try_from(rows).expect("few rows");
    let origin = [
        ("chomp.rows", rows.to_string()),
        ("chomp.digest", digest.to_string()),
    ];
    let properties = properties(sorted, &format!("row_{rows}"), origin);
    let write_group = |file: &mut SerializedFileWriter<_>, positions: &[[u32; 5]]| {
        let mut group = file.next_row_group()?;
        for row in 0..rows {
            write_column::<Int32Type, _, _>(&mut group, positions, |rows| rows[row].cast_signed())?;
        }
        group.close().map(drop)
    };
    write_groups(
        out,
        (&schema, properties, GROUP_ROWS),
        write_group,
        positions,
    )
}

fn of_table(table: TableName, fingerprint: Digest) -> [(&'static str, String); 2] {
    [
        ("chomp.table", table.folder()),
        ("chomp.fingerprint", fingerprint.to_string()),
    ]
}

fn write_groups<E: Clone, W: Write + Send>(
    out: W,
    (schema, properties, group_rows): (&str, WriterProperties, usize),
    write_group: impl Fn(&mut SerializedFileWriter<W>, &[E]) -> Result<(), ParquetError>,
    rows: &mut impl Pieces<Item = E>,
) -> Result<u64, ExportError> {
    let schema = Arc::new(parse_message_type(schema)?);
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = Vec::with_capacity(group_rows);
    let count = rows.for_each_piece(|mut piece| {
        while !piece.is_empty() {
            let (taken, rest) = piece.split_at(piece.len().min(group_rows - group.len()));
            group.extend_from_slice(taken);
            if group.len() == group_rows {
                write_group(&mut file, &group)?;
                group.clear();
            }
            piece = rest;
        }
        Ok(())
    })?;
    if !group.is_empty() {
        write_group(&mut file, &group)?;
    }
    file.close()?;
    Ok(count)
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> ExportError {
        match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => ExportError::from(*error),
                Err(error) => ExportError::Parquet(error),
            },
            error => ExportError::Parquet(error.into()),
        }
    }
}
