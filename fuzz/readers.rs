//! The readers of external bytes, for the fuzz targets and for `tests/corpus.rs`. Each returns an
//! error or nothing, and never panics.

use std::cell::RefCell;
use std::fs;

use apfl::algorithm::{agnostic, apfl as mixture, pfedme, scaffold};
use apfl::data::idx::Array as IdxArray;
use apfl::data::images::Images;
use apfl::data::table::Stream;
use apfl::data::{Source, cifar10, leaf as leaf_files};
use apfl::digest::sha256_of;
use apfl::pack::{Field, ModelOnly, NumberType, Pack, arrays_from_bytes};
use apfl::run::Checkpoints;
use apfl::spec::Spec;
use apfl::training::Training;

/// Reads bytes and returns whether they were accepted.
pub type Reader = fn(&[u8]) -> Result<(), String>;

/// Reads an IDX file, and its images and labels.
pub fn idx(bytes: &[u8]) -> Result<(), String> {
    let array = IdxArray::parse(bytes)?;
    let _ = array.integers();
    let _ = Images::from_array(array);
    Ok(())
}

/// Reads a batch of CIFAR-10.
pub fn cifar(bytes: &[u8]) -> Result<(), String> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    cifar10::parse(bytes, &mut pixels, &mut labels)?;
    assert_eq!(pixels.len(), 3072 * labels.len());
    Ok(())
}

/// Reads a file of LEAF.
pub fn leaf(bytes: &[u8]) -> Result<(), String> {
    leaf_files::parse(bytes).map(|_| ())
}

/// Reads a user's CSV; the first byte selects the settings of the table.
pub fn csv(bytes: &[u8]) -> Result<(), String> {
    let (first, csv) = bytes.split_first().ok_or("empty")?;
    let more = match first {
        b'4' => "standardize = 'client'\ncategorical = ['cp']\nmissing = ['', '-9']",
        b'5' => "standardize = true\nignore = ['cp']\nlabel_map = { '0' = 'no', '*' = 'yes' }",
        other => [
            "",
            "task = 'regression'\nstandardize = true",
            "client = ''\nclients = 2\npartition = 'dirichlet'",
            "min_examples = 3",
        ][usize::from(other % 4)],
    };
    let spec = format!("[data]\nkind = 'table'\npath = 'x.csv'\n{more}");
    let plan = Spec::parse(&spec).and_then(|spec| spec.plan());
    let Ok(Source::Table(table)) = plan.map(|plan| plan.data) else {
        panic!("the spec is valid")
    };
    let taken = table.load_from(&Stream {
        name: "x.csv".into(),
        bytes: csv.to_vec(),
        header: None,
    });
    taken.map(|_| ()).map_err(|e| e.to_string())
}

/// Reads a spec; lines that begin with `--set ` are overrides. The resolved spec of an accepted one
/// must be accepted again and mean the same.
pub fn spec(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let set = |line: &str| line.strip_prefix("--set ").map(str::to_owned);
    let written: Vec<&str> = text.lines().filter(|line| set(line).is_none()).collect();
    let mut spec = Spec::parse(&written.join("\n")).map_err(|e| e.to_string())?;
    for assignment in text.lines().filter_map(set) {
        spec.set(&assignment).map_err(|e| e.to_string())?;
    }
    let plan = spec.plan().map_err(|e| e.to_string())?;
    let again = Spec::parse(&plan.to_toml()).and_then(|spec| spec.plan());
    let again = again.unwrap_or_else(|e| panic!("resolved, but not accepted: {e}"));
    assert_eq!(again.resolved, plan.resolved);
    Ok(())
}

/// Reads a checkpoint in which one file is replaced by the bytes: by the first byte the manifest's
/// second line, the server's file or the client states. Checksums are corrected, so that the code
/// behind them is reached.
pub fn checkpoint(bytes: &[u8]) -> Result<(), String> {
    let (first, bytes) = bytes.split_first().ok_or("empty")?;
    FIXTURE.with_borrow_mut(|fixture| {
        let (mut manifest, mut server, mut states) = fixture.parts.clone();
        match first % 3 {
            0 => manifest = bytes.to_vec(),
            part => {
                *(if part == 1 { &mut server } else { &mut states }) = bytes.to_vec();
                let mut json: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
                sign(&mut json["server"], &server);
                sign(&mut json["memories"][0], &states);
                manifest = json.to_string().into_bytes();
            }
        }
        let mut signed = format!("{}\n", sha256_of(&manifest)).into_bytes();
        signed.extend_from_slice(&manifest);
        signed.push(b'\n');
        let at = fixture.folder.path().join("checkpoint");
        fs::write(at.join("checkpoint-1.manifest"), signed).unwrap();
        fs::write(at.join("server-1.safetensors"), server).unwrap();
        fs::write(at.join("memories-1.safetensors"), states).unwrap();
        let outcome = Checkpoints::resume(
            fixture.folder.path(),
            Default::default(),
            false,
            &mut fixture.training,
        );
        outcome.map(|_| ()).map_err(|e| e.to_string())
    })
}

fn sign(needed: &mut serde_json::Value, bytes: &[u8]) {
    needed["bytes"] = bytes.len().into();
    needed["sha256"] = sha256_of(bytes).into();
}

/// Represents a small run after its first round, with the three files of its checkpoint.
struct Fixture {
    folder: tempfile::TempDir,
    training: Training,
    parts: (Vec<u8>, Vec<u8>, Vec<u8>),
}

thread_local! {
    static FIXTURE: RefCell<Fixture> = RefCell::new(fixture());
}

fn fixture() -> Fixture {
    let spec = "[data]\nclients = 3\nfeatures = 2\nclasses = 2\n[training]\nrounds = 2";
    let plan = Spec::parse(spec).and_then(|spec| spec.plan()).unwrap();
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    training.next_round().unwrap();
    let folder = tempfile::tempdir().unwrap();
    Checkpoints::new(folder.path(), Default::default())
        .write(&mut training)
        .unwrap();
    let read = |name: &str| fs::read(folder.path().join("checkpoint").join(name)).unwrap();
    let manifest = read("checkpoint-1.manifest");
    let second = manifest.split(|byte| *byte == b'\n').nth(1).unwrap();
    let parts = (
        second.to_vec(),
        read("server-1.safetensors"),
        read("memories-1.safetensors"),
    );
    Fixture {
        folder,
        training,
        parts,
    }
}

/// Reads packed arrays. The first byte selects the type, the second is the number of arrays, three
/// more per array are its name, type and length; the rest is their numbers. Packing the value again
/// must give the same bits.
pub fn pack(bytes: &[u8]) -> Result<(), String> {
    let names = [
        "model", "control", "clients", "v", "alpha", "sum", "weight", "seen", "path", "theta", "q",
        "loss",
    ];
    let [which, count, rest @ ..] = bytes else {
        return Err("empty".into());
    };
    let (described, numbers) = rest
        .split_at_checked(3 * usize::from(*count))
        .ok_or("too short")?;
    let field = |f: &[u8]| Field {
        name: names[usize::from(f[0]) % names.len()].into(),
        kind: [NumberType::F32, NumberType::F64, NumberType::U64][usize::from(f[1]) % 3],
        // Lengths that exceed any memory must be errors too.
        len: if f[2] == 255 { usize::MAX } else { f[2].into() },
    };
    let fields: Vec<Field> = described.chunks_exact(3).map(field).collect();
    let value = [
        same::<ModelOnly>,
        same::<scaffold::Controlled>,
        same::<scaffold::Server>,
        same::<scaffold::ClientState>,
        same::<mixture::ClientState>,
        same::<mixture::averaged::Server>,
        same::<mixture::averaged::AveragedState>,
        same::<mixture::averaged::Update>,
        same::<pfedme::ClientState>,
        same::<agnostic::Server>,
        same::<agnostic::Update>,
    ][usize::from(*which) % 11];
    value(&fields, numbers)
}

fn same<T: Pack>(fields: &[Field], numbers: &[u8]) -> Result<(), String> {
    let mut arrays = arrays_from_bytes(fields, numbers).map_err(|e| e.to_string())?;
    let value = T::unpack(&mut arrays).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    for field in value.fields() {
        // Of two arrays with the same name the later counts.
        let place = fields
            .iter()
            .rposition(|f| *f == field)
            .expect("it was taken");
        let start: usize = fields[..place].iter().map(Field::bytes).sum();
        bytes.extend_from_slice(&numbers[start..start + field.bytes()]);
    }
    assert_eq!(value.to_bytes(), bytes);
    Ok(())
}
