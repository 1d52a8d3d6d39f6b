//! Reads Parquet files with columns of numbers and texts, in small blocks of rows.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{Compression, ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::rows::{Cell, RowReader};
use zstd::ZstdPages;

mod zstd;

/// The number of rows held in memory.
const BLOCK_ROWS: usize = 4096;

/// Reads the rows of a Parquet file.
pub struct ParquetRows {
    file: SerializedFileReader<File>,
    /// The same file, for pages that this crate decompresses.
    raw: File,
    header: Vec<String>,
    columns: Vec<Column>,
    /// The next row group to open.
    group: usize,
    /// The rows of the open group that are not read yet.
    unread: usize,
    /// The current row within the block, and the size of the block.
    row: usize,
    rows: usize,
    number: u64,
}

struct Column {
    /// `None` if the type is neither text nor number.
    reader: Option<ColumnReader>,
    readable: bool,
    unsigned: bool,
    required_level: i16,
    type_name: String,
    levels: Vec<i16>,
    /// For each row of the block, the index of its value; `None` is null.
    value_index: Vec<Option<u32>>,
    values: Values,
}

enum Values {
    Booleans(Vec<bool>),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Texts(Vec<String>),
    None,
}

/// Describes an error of the reader.
fn describe(error: ParquetError) -> String {
    let error = error.to_string();
    let way_out = if error.contains("Disabled feature") {
        "; its compression is not supported; save it with snappy, gzip, lz4 or zstd"
    } else {
        ""
    };
    format!("is not a readable Parquet file: {error}{way_out}")
}

impl ParquetRows {
    /// Opens a file and reads its footer.
    pub fn open(file: File) -> Result<Self, String> {
        let raw = file.try_clone().map_err(|e| e.to_string())?;
        let file = guarded(|| SerializedFileReader::new(file).map_err(describe))?;
        let columns = file.metadata().file_metadata().schema_descr().columns();
        Ok(Self {
            header: columns.iter().map(|c| c.path().string()).collect(),
            columns: columns.iter().map(|c| Column::of(c)).collect(),
            file,
            raw,
            group: 0,
            unread: 0,
            row: 0,
            rows: 0,
            number: 0,
        })
    }

    /// Opens the next row group that has rows; returns false at the end.
    fn open_group(&mut self) -> Result<bool, String> {
        while self.unread == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.group).map_err(describe)?;
            self.group += 1;
            self.unread = usize::try_from(group.metadata().num_rows())
                .map_err(|_| "has a row group with a negative number of rows".to_string())?;
            for (k, column) in self.columns.iter_mut().enumerate() {
                if !column.readable {
                    continue;
                }
                let chunk = group.metadata().column(k);
                let reader = match chunk.compression() {
                    Compression::ZSTD(_) => ZstdPages::new(&self.raw, chunk, self.unread)
                        .map(|pages| get_column_reader(chunk.column_descr_ptr(), Box::new(pages))),
                    _ => group.get_column_reader(k),
                };
                column.reader = Some(reader.map_err(describe)?);
            }
        }
        Ok(true)
    }
}

impl RowReader for ParquetRows {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn advance(&mut self) -> Result<bool, String> {
        guarded(|| self.next_row())
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        self.columns[column].cell(self.row)
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn unit(&self) -> &'static str {
        "row"
    }
}

impl ParquetRows {
    fn next_row(&mut self) -> Result<bool, String> {
        self.number += 1;
        self.row += 1;
        if self.row < self.rows {
            return Ok(true);
        }
        if !self.open_group()? {
            return Ok(false);
        }
        self.row = 0;
        self.rows = self.unread.min(BLOCK_ROWS);
        self.unread -= self.rows;
        for (column, name) in self.columns.iter_mut().zip(&self.header) {
            column
                .fill(self.rows)
                .map_err(|e| format!("column '{name}': {e}"))?;
        }
        Ok(true)
    }
}

/// Turns a panic into an error about the file: the reader panics on some damaged files.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err("is damaged: its content is inconsistent".into()))
}

impl Column {
    fn of(descriptor: &ColumnDescriptor) -> Self {
        let logical = descriptor.logical_type_ref();
        let converted = descriptor.converted_type();
        // Dates, times and decimals are stored as numbers but are not features.
        let plain = match logical {
            Some(LogicalType::Integer { .. } | LogicalType::String | LogicalType::Enum) => true,
            Some(_) => false,
            None => matches!(
                converted,
                ConvertedType::NONE
                    | ConvertedType::UTF8
                    | ConvertedType::ENUM
                    | ConvertedType::INT_8
                    | ConvertedType::INT_16
                    | ConvertedType::INT_32
                    | ConvertedType::INT_64
                    | ConvertedType::UINT_8
                    | ConvertedType::UINT_16
                    | ConvertedType::UINT_32
                    | ConvertedType::UINT_64
            ),
        };
        let unsigned = matches!(logical, Some(LogicalType::Integer(int)) if !int.is_signed)
            || matches!(
                converted,
                ConvertedType::UINT_8
                    | ConvertedType::UINT_16
                    | ConvertedType::UINT_32
                    | ConvertedType::UINT_64
            );
        use parquet::basic::Type as Physical;
        let physical = descriptor.physical_type();
        let known = !matches!(physical, Physical::INT96 | Physical::FIXED_LEN_BYTE_ARRAY);
        let type_name = match logical {
            _ if descriptor.max_rep_level() > 0 => "list".into(),
            // The first word of `Timestamp { … }` and the like.
            Some(logical) => {
                let word = format!("{logical:?}");
                let end = word.find(|c: char| !c.is_alphanumeric());
                word[..end.unwrap_or(word.len())].to_lowercase()
            }
            None if converted != ConvertedType::NONE => converted.to_string(),
            None => physical.to_string(),
        };
        Self {
            reader: None,
            readable: plain && known && descriptor.max_rep_level() == 0,
            unsigned,
            required_level: descriptor.max_def_level(),
            type_name,
            levels: Vec::new(),
            value_index: Vec::new(),
            values: Values::None,
        }
    }

    /// Reads the next `rows` rows.
    fn fill(&mut self, rows: usize) -> Result<(), String> {
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let (levels, level) = (&mut self.levels, self.required_level);
        self.values = match reader {
            ColumnReader::BoolColumnReader(r) => Values::Booleans(read(r, rows, level, levels)?),
            ColumnReader::Int32ColumnReader(r) => {
                let wide = |x: i32| {
                    if self.unsigned {
                        i64::from(x as u32)
                    } else {
                        i64::from(x)
                    }
                };
                let values = read(r, rows, level, levels)?;
                Values::Integers(values.into_iter().map(wide).collect())
            }
            ColumnReader::Int64ColumnReader(r) => {
                let values = read(r, rows, level, levels)?;
                if self.unsigned && values.iter().any(|x| *x < 0) {
                    return Err(format!(
                        "contains an integer above {}; save it as a floating-point number or a \
                         text",
                        i64::MAX
                    ));
                }
                Values::Integers(values)
            }
            ColumnReader::FloatColumnReader(r) => Values::Floats(read(r, rows, level, levels)?),
            ColumnReader::DoubleColumnReader(r) => Values::Doubles(read(r, rows, level, levels)?),
            ColumnReader::ByteArrayColumnReader(r) => {
                let text = |bytes: parquet::data_type::ByteArray| {
                    let text = std::str::from_utf8(bytes.data()).map_err(|e| e.to_string())?;
                    Ok(text.to_owned())
                };
                let values = read(r, rows, level, levels)?;
                Values::Texts(
                    values
                        .into_iter()
                        .map(text)
                        .collect::<Result<_, String>>()?,
                )
            }
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                Values::None
            }
        };
        self.value_index.clear();
        let mut next = 0;
        for row in 0..rows {
            let present = level == 0 || self.levels[row] == level;
            self.value_index.push(present.then_some(next));
            next += u32::from(present);
        }
        let found = match &self.values {
            Values::Booleans(v) => v.len(),
            Values::Integers(v) => v.len(),
            Values::Floats(v) => v.len(),
            Values::Doubles(v) => v.len(),
            Values::Texts(v) => v.len(),
            Values::None => return Ok(()),
        };
        if found == next as usize {
            Ok(())
        } else {
            Err(format!("has {found} values; expected {next}"))
        }
    }

    fn cell(&self, row: usize) -> Cell<'_> {
        if self.reader.is_none() {
            return Cell::Other(&self.type_name);
        }
        let Some(at) = self.value_index.get(row).copied().flatten() else {
            return Cell::Missing;
        };
        let at = at as usize;
        match &self.values {
            Values::Booleans(v) => Cell::Boolean(v[at]),
            Values::Integers(v) => Cell::Integer(v[at]),
            Values::Floats(v) => Cell::Float(v[at]),
            Values::Doubles(v) => Cell::Double(v[at]),
            Values::Texts(v) => Cell::Text(&v[at]),
            Values::None => Cell::Other(&self.type_name),
        }
    }
}

/// Reads the next `rows` rows: the values that are not null, and every row's level.
fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    level: i16,
    levels: &mut Vec<i16>,
) -> Result<Vec<T::T>, String> {
    levels.clear();
    let mut values = Vec::new();
    let mut read = 0;
    while read < rows {
        let levels = (level > 0).then_some(&mut *levels);
        let (records, _, _) = reader
            .read_records(rows - read, levels, None, &mut values)
            .map_err(describe)?;
        if records == 0 {
            return Err(format!("is {} rows too short", rows - read));
        }
        read += records;
    }
    if level > 0 && levels.len() != rows {
        Err(format!("has {} levels for {rows} rows", levels.len()))
    } else {
        Ok(values)
    }
}
