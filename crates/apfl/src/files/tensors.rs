//! `.safetensors` files, written as a stream and read tensor by tensor.
//!
//! Models have tensors named by layer, or `<client>/<layer>`; checkpoints have the arrays of the
//! server and of client states.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::{Map, json};

use super::atomic::AtomicFile;
use super::slots::{Slots, SlotsLocation};
use crate::error::{Error, Result, at};
use crate::model::Layout;
use crate::pack::NumberType;
use crate::params::{Params, bytes_of};

/// Represents name, type and shape of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// The type of its numbers.
    pub kind: NumberType,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl TensorEntry {
    fn bytes(&self) -> usize {
        self.kind.size() * self.shape.iter().product::<usize>()
    }
}

/// Returns the header of a file with these tensors in order: the length of a JSON object of types,
/// shapes and offsets, then that object, padded to 8 bytes.
pub fn header(entries: &[TensorEntry]) -> Vec<u8> {
    header_with_metadata(entries, &[])
}

/// Returns the header with metadata.
fn header_with_metadata(entries: &[TensorEntry], metadata: &[(&str, String)]) -> Vec<u8> {
    let mut tensors = Map::new();
    if !metadata.is_empty() {
        let texts = metadata
            .iter()
            .map(|(key, text)| (key.to_string(), json!(text)));
        tensors.insert("__metadata__".into(), texts.collect::<Map<_, _>>().into());
    }
    let mut start = 0;
    for entry in entries {
        let end = start + entry.bytes();
        let value = json!({
            "dtype": entry.kind.name(),
            "shape": entry.shape,
            "data_offsets": [start, end],
        });
        tensors.insert(entry.name.clone(), value);
        start = end;
    }
    let mut text = serde_json::to_vec(&tensors).expect("plain JSON");
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.append(&mut text);
    header
}

/// Writes one model.
pub fn write_one(path: &Path, layout: &Layout, params: &[f32]) -> Result<()> {
    write_one_with_metadata(path, layout, params, &[])
}

/// Writes one model with metadata.
pub fn write_one_with_metadata(
    path: &Path,
    layout: &Layout,
    params: &[f32],
    metadata: &[(&str, String)],
) -> Result<()> {
    let file = ModelsFile::begin(path, layout, &[String::new()], metadata)?;
    file.write(0, params)?;
    file.file.commit()
}

/// Writes many models of one layout into slots, without holding all in memory.
#[derive(Debug)]
pub struct ModelsFile {
    /// The file.
    pub file: AtomicFile,
    /// One slot per client.
    pub slots: SlotsLocation,
}

impl ModelsFile {
    /// Writes a model into a slot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, slot: u64, params: &[f32]) -> Result<()> {
        Slots::open(&self.slots)?.write(slot, &bytes_of(params))
    }

    /// Creates a file for the models of these clients; an empty name has no prefix.
    pub fn create(path: &Path, layout: &Layout, clients: &[String]) -> Result<Self> {
        Self::begin(path, layout, clients, &[])
    }

    fn begin(
        path: &Path,
        layout: &Layout,
        clients: &[String],
        metadata: &[(&str, String)],
    ) -> Result<Self> {
        let mut entries = Vec::new();
        for client in clients {
            entries.extend(layout.tensors.iter().map(|tensor| TensorEntry {
                name: tensor_name(client, &tensor.name),
                kind: NumberType::F32,
                shape: tensor.shape.clone(),
            }));
        }
        let header = header_with_metadata(&entries, metadata);
        let mut file = AtomicFile::create_private(path)?;
        file.write(&header)?;
        let slots = SlotsLocation {
            path: file.flush_temporary()?.to_owned(),
            start: header.len() as u64,
            bytes: 4 * layout.len(),
        };
        Ok(Self { file, slots })
    }
}

fn tensor_name(client: &str, tensor: &str) -> String {
    match client {
        "" => tensor.into(),
        client => format!("{client}/{tensor}"),
    }
}

/// Reads a file tensor by tensor.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    file: File,
    size: u64,
    data: u64,
    metadata: Metadata,
}

impl TensorFile {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<Self> {
        let wrong = |message: String| Error::in_file(path, message);
        let io = || at(path, "read");
        let mut file = File::open(path).map_err(io())?;
        let size = file.metadata().map_err(io())?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length)
            .map_err(|_| wrong(format!("has {size} bytes, too few for a .safetensors file")))?;
        let header_len = u64::from_le_bytes(length);
        if header_len > size.saturating_sub(8) {
            return Err(wrong(format!(
                "is not a complete .safetensors file: its header needs {header_len} bytes, the \
                 file has {size}"
            )));
        }
        let mut header = Vec::new();
        (&mut file)
            .take(header_len)
            .read_to_end(&mut header)
            .map_err(io())?;
        let metadata = serde_json::from_slice(&header)
            .map_err(|e| wrong(format!("is not a valid .safetensors file: {e}")))?;
        Ok(Self {
            path: path.into(),
            file,
            size,
            data: 8 + header_len,
            metadata,
        })
    }

    fn wrong(&self, message: impl std::fmt::Display) -> Error {
        Error::in_file(&self.path, message)
    }

    /// Returns the entries of all tensors, in file order.
    pub fn entries(&self) -> Result<Vec<TensorEntry>> {
        let name_of = |name: &String| {
            let info = self.metadata.info(name).expect("a name of its own");
            let kind = match info.dtype {
                Dtype::F32 => NumberType::F32,
                Dtype::F64 => NumberType::F64,
                Dtype::U64 => NumberType::U64,
                other => return Err(self.wrong(format!("tensor '{name}' has type {other:?}"))),
            };
            Ok(TensorEntry {
                name: name.clone(),
                kind,
                shape: info.shape.clone(),
            })
        };
        self.metadata.offset_keys().iter().map(name_of).collect()
    }

    /// Reads the bytes of a tensor.
    ///
    /// # Errors
    /// The tensor is missing or has another type or shape.
    pub fn read(&mut self, expected: &TensorEntry) -> Result<Vec<u8>> {
        let name = &expected.name;
        let info = self.metadata.info(name).ok_or_else(|| {
            let mut names = self.metadata.offset_keys();
            names.truncate(8);
            self.wrong(format!(
                "has no tensor '{name}'; it has {} …",
                names.join(", ")
            ))
        })?;
        if format!("{:?}", info.dtype) != expected.kind.name() || info.shape != expected.shape {
            return Err(self.wrong(format!(
                "tensor '{name}' is {:?} of shape {:?}; expected {} of shape {:?}",
                info.dtype,
                info.shape,
                expected.kind.name(),
                expected.shape
            )));
        }
        let start = self.data.saturating_add(info.data_offsets.0 as u64);
        if start.saturating_add(expected.bytes() as u64) > self.size {
            return Err(self.wrong(format!("is truncated within tensor '{name}'")));
        }
        let mut bytes = vec![0; expected.bytes()];
        self.file
            .seek(SeekFrom::Start(start))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(at(&self.path, "read"))?;
        Ok(bytes)
    }
}

/// Reads the model of one client, or the only one if `client` is empty.
pub fn read_one(path: &Path, layout: &Layout, client: &str) -> Result<Params> {
    let mut file = TensorFile::open(path)?;
    let mut params = Vec::with_capacity(layout.len());
    for tensor in &layout.tensors {
        let bytes = file.read(&TensorEntry {
            name: tensor_name(client, &tensor.name),
            kind: NumberType::F32,
            shape: tensor.shape.clone(),
        })?;
        let number = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes"));
        params.extend(bytes.chunks_exact(4).map(number));
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_come_back_by_client() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.safetensors");
        let mut layout = Layout::default();
        layout.push("a", &[2, 1], 2);
        layout.push("b", &[1], 2);
        let names = vec!["x".to_string(), "y/z".to_string()];
        let file = ModelsFile::create(&path, &layout, &names).unwrap();
        let bytes = |x: [f32; 3]| x.map(f32::to_le_bytes).concat();
        let slots = Slots::open(&file.slots).unwrap();
        slots.write(1, &bytes([4.0, 5.0, 6.0])).unwrap();
        slots.write(0, &bytes([1.0, 2.0, 3.0])).unwrap();
        file.file.commit().unwrap();
        assert_eq!(read_one(&path, &layout, "y/z").unwrap(), [4.0, 5.0, 6.0]);
        let bytes = std::fs::read(&path).unwrap();
        assert!(safetensors::SafeTensors::deserialize(&bytes).is_ok());
        let error = read_one(&path, &layout, "q").unwrap_err().to_string();
        assert!(error.contains("has no tensor 'q/a'"), "{error}");

        write_one(&path, &layout, &[7.0, 8.0, 9.0]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(read_one(&path, &layout, "").unwrap(), [7.0, 8.0, 9.0]);
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(read_one(&path, &layout, "").is_err(), "cut at {cut}");
        }
    }
}
