//! A user's Parquet file gives what the same table as CSV gives.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apfl::data::{Dataset, Features, Task, table};
use apfl::spec::Spec;
use apfl::training::Training;
use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Ten rows: two clients, text labels, features of every kind of number.
fn write(path: &Path, compression: Compression, schema: &str, groups: usize) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for group in 0..groups {
        let mut rows = writer.next_row_group().unwrap();
        let (from, to) = (group * 10 / groups, (group + 1) * 10 / groups);
        let mut k = 0;
        while let Some(mut column) = rows.next_column().unwrap() {
            let range = || from..to;
            let texts = |f: &dyn Fn(usize) -> String| -> Vec<ByteArray> {
                range().map(|row| f(row).into_bytes().into()).collect()
            };
            macro_rules! put {
                ($type:ty, $values:expr) => {{
                    let values: Vec<_> = $values;
                    let levels = vec![1; values.len()];
                    let typed = column.typed::<$type>();
                    typed.write_batch(&values, Some(&levels), None).unwrap();
                }};
            }
            match k {
                0 => put!(ByteArrayType, texts(&|row| format!("client {}", row % 2))),
                1 => put!(
                    ByteArrayType,
                    texts(&|row| ["hen", "cat"][row / 2 % 2].into())
                ),
                2 => put!(DoubleType, range().map(|row| row as f64 / 3.0).collect()),
                3 => put!(FloatType, range().map(|row| row as f32 / 7.0).collect()),
                4 => put!(Int64Type, range().map(|row| row as i64 - 5).collect()),
                5 => put!(Int32Type, range().map(|row| row as i32).collect()),
                _ => put!(BoolType, range().map(|row| row % 3 == 0).collect()),
            }
            column.close().unwrap();
            k += 1;
        }
        rows.close().unwrap();
    }
    writer.close().unwrap();
}

const SCHEMA: &str = "message table {
    optional binary client (UTF8); optional binary label (UTF8); optional double a;
    optional float b; optional int64 c; optional int32 d (UINT_8); optional boolean e;
}";

fn csv() -> String {
    let mut text = "client,label,a,b,c,d,e\n".to_string();
    for row in 0..10 {
        text += &format!(
            "client {},{},{},{},{},{row},{}\n",
            row % 2,
            ["hen", "cat"][row / 2 % 2],
            row as f64 / 3.0,
            row as f32 / 7.0,
            row as i64 - 5,
            row % 3 == 0,
        );
    }
    text
}

fn load(path: &Path) -> Result<Arc<dyn Dataset>, String> {
    let spec = format!("[data]\nkind = 'table'\npath = '{}'", path.display());
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    plan.data.load().map_err(|e| e.to_string())
}

/// A file that PyArrow wrote (`parquet_files/write.py`).
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parquet_files");
    folder.join(format!("{name}.parquet"))
}

#[test]
fn parquet_and_csv_are_the_same_table() {
    let dir = tempfile::tempdir().unwrap();
    let (csv_path, parquet_path) = (dir.path().join("t.csv"), dir.path().join("t.pq"));
    fs::write(&csv_path, csv()).unwrap();
    let of_csv = load(&csv_path).unwrap();
    let kinds = [
        Ok((Compression::UNCOMPRESSED, 1)),
        Ok((Compression::SNAPPY, 2)),
        Ok((Compression::GZIP(Default::default()), 3)),
        Ok((Compression::LZ4_RAW, 2)),
        Err("zstd-v1"),
        Err("zstd-v2"),
    ];
    for kind in kinds {
        match kind {
            Ok((compression, groups)) => write(&parquet_path, compression, SCHEMA, groups),
            Err(name) => drop(fs::copy(file(name), &parquet_path).unwrap()),
        }
        let of_parquet = load(&parquet_path).unwrap();
        assert_eq!(of_parquet.schema(), of_csv.schema());
        for client in 0..2 {
            let (a, b) = (
                of_csv.shard(client).unwrap(),
                of_parquet.shard(client).unwrap(),
            );
            assert_eq!((&a.name, &a.train, &a.valid), (&b.name, &b.train, &b.valid));
        }
        let x = table::read_features(&parquet_path, of_csv.schema()).unwrap();
        assert_eq!(x, table::read_features(&csv_path, of_csv.schema()).unwrap());
    }
}

/// 20,000 rows, row k at client k mod 5 with x = k mod 7 and y = k² mod 1000: a column is
/// 160,000 bytes, and a block of Zstandard's holds 131,072.
#[test]
fn long_columns_in_zstd_are_read_to_their_end() {
    for name in ["zstd-long-v1", "zstd-long-v2"] {
        let data = load(&file(name)).unwrap();
        assert_eq!(data.clients(), 5);
        for client in 0..5 {
            let shard = data.shard(client).unwrap();
            let (mut sum, mut rows) = ([0.0; 2], 0);
            for part in [&shard.train, &shard.valid] {
                let Features::Floats(x) = part.features() else {
                    panic!("a table has numbers")
                };
                rows += x.len() / 2;
                for row in x.chunks_exact(2) {
                    sum[0] += f64::from(row[0]);
                    sum[1] += f64::from(row[1]);
                }
            }
            let of_client = || (client..20_000).step_by(5);
            let x: usize = of_client().map(|k| k % 7).sum();
            let y: usize = of_client().map(|k| k * k % 1000).sum();
            assert_eq!((sum, rows), ([x as f64, y as f64], 4000), "{name} {client}");
        }
    }
}

/// Every cut and many flipped bits of a file with Zstandard: an error or a table, no panic.
#[test]
fn a_damaged_zstd_file_is_refused_or_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    for name in ["zstd-v1", "zstd-v2"] {
        let whole = fs::read(file(name)).unwrap();
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(load(&path).is_err(), "{name} cut at {at}");
            for bit in [0, 5] {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                fs::write(&path, &bytes).unwrap();
                if let Err(error) = load(&path) {
                    assert!(error.contains("t.parquet: "), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_parquet_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let said = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        load(&path).err().expect("an error")
    };
    assert!(said(b"a,b\n1,2\n").contains("is not a readable Parquet file"));
    write(&path, Compression::SNAPPY, SCHEMA, 1);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        assert!(said(&whole[..cut]).contains("t.parquet: "), "cut at {cut}");
    }
    // A flipped bit may or may not be noticed, but nothing panics.
    for at in 0..whole.len() {
        for bit in [0, 3, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(&path, &bytes).unwrap();
            if let Err(error) = load(&path) {
                assert!(error.contains("t.parquet: "), "{error}");
            }
        }
    }
    write(
        &path,
        Compression::SNAPPY,
        &SCHEMA.replace("int64 c", "int64 c (TIMESTAMP(MILLIS,true))"),
        1,
    );
    let error = load(&path).err().expect("an error");
    assert!(
        error.contains("row 1, column 'c': is a timestamp"),
        "{error}"
    );
    write(
        &path,
        Compression::SNAPPY,
        &SCHEMA.replace("double a", "double label2"),
        1,
    );
    assert!(load(&path).is_ok());
}

/// y = 2x + 1 at every client: squared error finds the line, from data to summary.
#[test]
fn unsigned_numbers_do_not_turn_negative() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("u.parquet");
    let schema = SCHEMA.replace("int64 c", "int64 c (UINT_64)");
    assert_ne!(schema, SCHEMA);
    // Column c runs from −5: the first five are above 2⁶³ to an unsigned reader.
    write(&path, Compression::UNCOMPRESSED, &schema, 1);
    let said = load(&path).err().unwrap();
    assert!(said.contains("above 9223372036854775807"), "{said}");
}

#[test]
fn regression_trains_end_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    let mut text = "client,x,y\n".to_string();
    for row in 0..200 {
        let x = f64::from(row % 50) / 25.0 - 1.0;
        text += &format!("{},{x},{}\n", row / 50, 2.0 * x + 1.0);
    }
    fs::write(&path, text).unwrap();
    let spec = format!(
        "[data]\nkind = 'table'\npath = '{}'\nlabel = 'y'\ntask = 'regression'
         [model]\nl2 = 0\n[training]\nrounds = 60\nlearning_rate = 0.1\nschedule = 'constant'",
        path.display()
    );
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    let setup = plan.setup().unwrap();
    assert_eq!(setup.context.dataset.schema().task, Task::Regression);
    let mut training = Training::new(setup, &plan.algorithm).unwrap();
    let mut last = None;
    while let Some(round) = training.next_round().unwrap() {
        last = round.scores;
    }
    let scores = last.unwrap().shared.valid;
    assert_eq!(scores.accuracy, None);
    assert!(scores.rmse.unwrap() < 0.01, "{scores:?}");
    let w = training.shared();
    assert!(
        (w[0] - 2.0).abs() < 0.02 && (w[1] - 1.0).abs() < 0.02,
        "{w:?}"
    );
}
